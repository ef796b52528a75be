"""A process of a story: a production node on the wires of its scene."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.config.layers import Inputs
from tidelog.config.node_config import NodeConfig, load_node_config
from tidelog.config.properties import parse_properties, write_properties
from tidelog.host.ports import Entropy
from tidelog.sim.entropy import stream
from tidelog.sim.kernel import Kernel
from tidelog.sim.nodes.clock import MachineClock
from tidelog.sim.nodes.cluster import BROKER_PORT, CONTROLLER_PORT, DATA
from tidelog.sim.nodes.loop import VirtualLoop
from tidelog.sim.nodes.server import Server
from tidelog.sim.nodes.tcp import Internet
from tidelog.sim.scenario.wires import Address, StoryNetwork, Wires
from tidelog.storage.meta_properties import MetaProperties, format_directory

CLUSTER_ID = "story"


def machine_name(node_id: int) -> str:
    return f"node-{node_id}"


def broker_address(node_id: int) -> Address:
    return machine_name(node_id), BROKER_PORT


def controller_address(node_id: int) -> Address:
    return machine_name(node_id), CONTROLLER_PORT


class PlainEntropy:
    """The `Entropy` port of a story: no chance, and every id is new."""

    __slots__ = ("_uuids",)

    def __init__(self, first: int) -> None:
        self._uuids = first

    def below(self, limit: int) -> int:
        return limit // 2

    def uuid(self) -> bytes:
        self._uuids += 1
        return self._uuids.to_bytes(16, "big")


class StoryServer(Server):
    """Work beside the loop is done at once, and frames go through the gate of the story."""

    __slots__ = ("_wires", "network", "owner")

    def __init__(
        self, kernel: Kernel, wires: Wires, config: NodeConfig, owner: int | None = None
    ) -> None:
        """`owner` tells two machines apart that claim to be the same node."""
        self.owner = config.node_id if owner is None else owner
        name = machine_name(self.owner)
        machine = Internet(kernel, stream(0, name)).add_machine(name, self.owner)
        super().__init__(kernel, machine, config, MachineClock(kernel), 0)
        self._wires = wires
        self.network: StoryNetwork | None = None
        wires.owners[name] = self.owner
        self.format()

    def format(self) -> None:
        """An empty disk, with a directory id that was never there before."""
        directory_id = (1 << 64 | self.node_id << 16 | self.starts).to_bytes(16, "big")
        identity = MetaProperties(CLUSTER_ID, self.node_id, directory_id)
        format_directory(self.files.add(DATA), identity)

    def start(self) -> None:
        self._wires.boot(self.machine.name)
        super().start()

    def lose_power(self) -> None:
        """What was not synced is for the story to take away."""
        self._end(power_lost=True)

    def _end(self, *, power_lost: bool) -> None:
        network, self.network = self.network, None
        super()._end(power_lost=power_lost)
        if network is not None:
            self._wires.on_process_gone(network, power_lost=power_lost)

    def _make_network(self, loop: VirtualLoop) -> StoryNetwork:
        self.network = StoryNetwork(self._wires, self.owner, loop, self.clock)
        return self.network

    def _make_entropy(self) -> Entropy:
        return PlainEntropy(1 << 96 | self.node_id << 32 | self.starts << 16)

    def _work_us(self) -> int:
        return 0


def node_config(node_id: int, settings: Mapping[str, str]) -> NodeConfig:
    """Kafka's own times, so that stories tell them."""
    name = machine_name(node_id)
    values = {
        "node.id": str(node_id),
        "controller.listener.names": "CONTROLLER",
        "log.dirs": DATA,
        "ack.durability": "page-cache",
        "metadata.max.idle.interval.ms": "0",
        **settings,
    }
    loaded = load_node_config(Inputs(parse_properties(write_properties(values), name)))
    assert loaded.config is not None, loaded.problems
    return loaded.config
