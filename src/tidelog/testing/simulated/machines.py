"""The machines of a simulated cluster: nodes as a test has asked for them, and who asks them."""

from collections.abc import Mapping, Sequence
from typing import Any

from tidelog.cluster.layout import Shape, controllers_of
from tidelog.config.layers import Inputs
from tidelog.config.node_config import NodeConfig, load_node_config
from tidelog.config.properties import parse_properties, write_properties
from tidelog.host.gate import GatedNetwork
from tidelog.host.network import TcpNetwork
from tidelog.node.node import Node
from tidelog.node.scripted_answers import ScriptedAnswers
from tidelog.observe.http_server import Request, Response
from tidelog.observe.stream import EventStream
from tidelog.sim.nodes.clock import MachineClock
from tidelog.sim.nodes.cluster import FIRST_CLIENT, NodeCluster, machine_name, node_settings
from tidelog.sim.nodes.cluster_plan import ClusterPlan
from tidelog.sim.nodes.loop import VirtualLoop
from tidelog.sim.nodes.server import Server
from tidelog.sim.nodes.tcp import Machine
from tidelog.sim.nodes.watching import Watching


class Looking(Watching):
    """The observation of a node that answers the test, and nobody else."""

    __slots__ = ()

    async def start(self) -> None:
        await self._observation.start()

    @property
    def answers(self) -> ScriptedAnswers | None:
        chaos = self._observation.chaos
        return None if chaos is None else chaos.answers

    def ask(self, path: str) -> bytes:
        """As over HTTP, at once: no answer about a node waits for anything."""
        answering = self._observation.answer(Request("GET", path, {}, {}, b""))
        try:
            answering.send(None)
        except StopIteration as answered:
            response: Response = answered.value
            return response.body
        raise AssertionError(f"the answer to {path} waits for something")


class TestedServer(Server):
    """A machine whose node is watched by a test instead of an operator who asks at random."""

    __slots__ = ("looking",)

    looking: Looking | None

    async def _watch(
        self, node: Node, events: EventStream, network: TcpNetwork, gate: GatedNetwork | None
    ) -> None:
        entropy = self._stream(f"nobody's questions, start {self.starts}")
        self._watching = self.looking = Looking(node, events, network, gate, entropy)
        await self.looking.start()

    def crash(self) -> None:
        """SIGKILL for its connections, a power loss for its disks: of what was not synced the seed
        draws what is left."""
        self.kill()
        self._lose_unsynced()

    def _end(self, *, power_lost: bool) -> None:
        self.looking = None
        super()._end(power_lost=power_lost)


class Machines(NodeCluster):
    """Servers by node id, and machines that clients run on."""

    __slots__ = ()

    servers: Mapping[int, TestedServer]  # type: ignore[assignment] # all of them are

    def _make_server(self, node_id: int) -> TestedServer:
        machine = self.internet.add_machine(machine_name(node_id), node_id)
        config = _config_of(node_id, self.plan)
        server = TestedServer(self.kernel, machine, config, MachineClock(self.kernel), self._seed)
        server.looking = None
        server.format_directories()
        return server

    def add_machine(self, name: str) -> Machine:
        return self.internet.add_machine(name, FIRST_CLIENT + len(self._clients))

    def add_loop(self, loop: VirtualLoop) -> None:
        """Of a machine that was just added."""
        self._clients.append(loop)


def plan_of(shape: Shape) -> ClusterPlan:
    racks: Sequence[str] = shape.racks
    return ClusterPlan(
        shape.brokers,
        controllers_of(shape),
        separate=shape.separate,
        racks=tuple(racks[at % len(racks)] for at in range(shape.brokers)) if racks else (),
        settings=tuple(sorted({"tidelog.chaos.enable": "true", **shape.config}.items())),
    )


def _config_of(node_id: int, plan: ClusterPlan) -> NodeConfig:
    """ValueError says what is wrong with the settings."""
    text = write_properties(node_settings(node_id, plan))
    loaded: Any = load_node_config(Inputs(parse_properties(text, machine_name(node_id))))
    if loaded.config is None:
        raise ValueError("\n".join(str(each) for each in loaded.problems))
    config: NodeConfig = loaded.config
    return config
