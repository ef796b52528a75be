"""A cluster of production nodes on simulated machines."""

from collections.abc import Mapping
from random import Random

from tidelog.client.client import Client, World
from tidelog.config.layers import Inputs
from tidelog.config.node_config import NodeConfig, load_node_config
from tidelog.config.profiles import BRISK, PROFILES
from tidelog.config.properties import parse_properties, write_properties
from tidelog.host.network import TcpNetwork
from tidelog.sim.entropy import stream
from tidelog.sim.kernel import Kernel
from tidelog.sim.nodes.clock import MILLION, MachineClock
from tidelog.sim.nodes.loop import OnError, VirtualLoop
from tidelog.sim.nodes.server import Server
from tidelog.sim.nodes.tcp import Internet
from tidelog.storage.meta_properties import MetaProperties, format_directory

BROKER_PORT = 9092
CONTROLLER_PORT = 9093
DATA = "/data"
CLUSTER_ID = "simulated"
RESERVE_BYTES = 64 * 1024
"""Half of it is a file of zeros on every simulated disk."""
FIRST_CLIENT = 1_000
"""Owner numbers in the kernel: nodes have their ids, clients begin here."""


class NodeCluster:
    """Servers by node id, and clients that come from machines of their own."""

    __slots__ = ("_clients", "_seed", "internet", "kernel", "servers")

    def __init__(
        self, kernel: Kernel, seed: int, brokers: int, settings: Mapping[str, str]
    ) -> None:
        self.kernel = kernel
        self._seed = seed
        self.internet = Internet(kernel, stream(seed, "wires"))
        self.servers: dict[int, Server] = {}
        self._clients: list[VirtualLoop] = []
        entropy = stream(seed, "machines")
        for node_id in range(1, brokers + 1):
            self.servers[node_id] = self._make_server(node_id, brokers, settings, entropy)

    def _make_server(
        self, node_id: int, brokers: int, settings: Mapping[str, str], entropy: Random
    ) -> Server:
        rate = MILLION + entropy.randrange(-200, 201)
        clock = MachineClock(self.kernel, rate=rate, wall_ahead_ms=entropy.randrange(-500, 501))
        machine = self.internet.add_machine(machine_name(node_id), node_id)
        config = node_config(node_id, brokers, settings)
        server = Server(self.kernel, machine, config, clock, self._seed)
        identity = MetaProperties(CLUSTER_ID, node_id, entropy.randbytes(16))
        format_directory(server.files.add(DATA), identity)
        return server

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{machine_name(each)}:{BROKER_PORT}" for each in self.servers)

    def new_client(self, on_error: OnError) -> tuple[VirtualLoop, Client]:
        """Our own client on a machine of its own; what it does runs on its loop."""
        owner = FIRST_CLIENT + len(self._clients)
        machine = self.internet.add_machine(f"client-{owner}", owner)
        clock = MachineClock(self.kernel)
        loop = VirtualLoop(self.kernel, machine, clock, on_error)
        self._clients.append(loop)
        made: list[Client] = []
        loop.perform(
            lambda: made.append(Client(self.bootstrap, world=World(clock, TcpNetwork(clock))))
        )
        return loop, made[0]

    def bury(self) -> None:
        for loop in self._clients:
            loop.kill()
            loop.bury()
        for server in self.servers.values():
            server.bury()


def machine_name(node_id: int) -> str:
    return f"node-{node_id}"


def node_config(node_id: int, brokers: int, settings: Mapping[str, str]) -> NodeConfig:
    """Every node is a broker and a controller, with the profile of `tidelog up`."""
    name = machine_name(node_id)
    voters = [f"{each}@{machine_name(each)}:{CONTROLLER_PORT}" for each in range(1, brokers + 1)]
    values = {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "listeners": f"PLAINTEXT://{name}:{BROKER_PORT},CONTROLLER://{name}:{CONTROLLER_PORT}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(voters),
        "log.dirs": DATA,
        "default.replication.factor": str(min(3, brokers)),
        "offsets.topic.replication.factor": str(min(3, brokers)),
        "transaction.state.log.replication.factor": str(min(3, brokers)),
        "min.insync.replicas": str(min(2, max(1, brokers - 1))),
        "tidelog.disk.reserve.bytes": str(RESERVE_BYTES),
        **PROFILES[BRISK],
        **settings,
    }
    loaded = load_node_config(Inputs(parse_properties(write_properties(values), name)))
    assert loaded.config is not None, loaded.problems
    return loaded.config
