"""A cluster of production nodes on simulated machines."""

from collections.abc import Mapping
from importlib.util import find_spec

from tidelog.client.client import Client, World
from tidelog.config.client_keys import STANDARD_AUTHORIZER
from tidelog.config.layers import Inputs
from tidelog.config.node_config import NodeConfig, load_node_config
from tidelog.config.profiles import BRISK, PROFILES
from tidelog.config.properties import parse_properties, write_properties
from tidelog.host.network import TcpNetwork
from tidelog.sim.entropy import SeededEntropy, stream
from tidelog.sim.kernel import Kernel
from tidelog.sim.nodes.clock import MachineClock
from tidelog.sim.nodes.cluster_plan import ClusterPlan
from tidelog.sim.nodes.kafka_past import take_over_from_kafka
from tidelog.sim.nodes.loop import OnError, VirtualLoop
from tidelog.sim.nodes.server import Server
from tidelog.sim.nodes.tcp import Internet

BROKER_PORT = 9092
CONTROLLER_PORT = 9093
HTTP_PORT = 8080
DATA = "/data"
CLIENT, STRANGER, OUTCAST = "client", "stranger", "outcast"
"""Who may do everything, who may do what access rules allow, and who may do nothing."""
SCRAM_USERS = {"SCRAM-SHA-256": (CLIENT, STRANGER, OUTCAST), "SCRAM-SHA-512": (CLIENT, "node")}
_LOGIN = 'required username="node" password="of node"'
_NODES = (
    f"org.apache.kafka.common.security.plain.PlainLoginModule {_LOGIN}"
    ' user_node="of node" user_client="of client" user_outcast="of outcast";'
)
SECURED = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": _NODES,
    "listener.name.plaintext.scram-sha-512.sasl.jaas.config": (
        f"org.apache.kafka.common.security.scram.ScramLoginModule {_LOGIN};"
    ),
    "listener.name.controller.plain.sasl.jaas.config": _NODES,
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:node;User:client",
    "tidelog.audit.topic.enable": "false",
}
"""Nodes know each other by a password of theirs, clients are users in the metadata."""
if find_spec("jwt") is not None:  # the extra `oauth`
    SECURED["sasl.enabled.mechanisms"] += ",OAUTHBEARER"
    SECURED["sasl.oauthbearer.jwks.endpoint.url"] = "https://issuer/keys"
    SECURED["sasl.oauthbearer.jwks.endpoint.refresh.ms"] = "20000"

SHORT_SESSIONS = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "4000",
}
RESERVE_BYTES = 64 * 1024
"""Half of it is a file of zeros on every simulated disk."""
FIRST_CLIENT = 1_000
"""Owner numbers in the kernel: nodes have their ids, clients begin here."""


class NodeCluster:
    """Servers by node id, and clients that come from machines of their own."""

    __slots__ = ("_clients", "_logins", "_seed", "internet", "kernel", "plan", "servers")

    def __init__(self, kernel: Kernel, seed: int, plan: ClusterPlan) -> None:
        self.kernel = kernel
        self._seed = seed
        self.plan = plan
        self.internet = Internet(kernel, stream(seed, "wires"), plan.wire_delay_us)
        self.servers: dict[int, Server] = {}
        self._logins = stream(seed, "logins of clients")
        self._clients: list[VirtualLoop] = []
        for node_id in range(1, plan.nodes + 1):
            self.servers[node_id] = self._make_server(node_id)
        if plan.from_kafka:
            take_over_from_kafka([self.servers[voter] for voter in plan.voter_ids])

    def _make_server(self, node_id: int) -> Server:
        rate_ppm, wall_ahead_ms = self.plan.clock(node_id)
        clock = MachineClock(self.kernel, rate=rate_ppm, wall_ahead_ms=wall_ahead_ms)
        machine = self.internet.add_machine(machine_name(node_id), node_id)
        config = node_config(node_id, self.plan)
        server = Server(self.kernel, machine, config, clock, self._seed)
        server.sync_us = self.plan.sync_us
        server.format_directories(SCRAM_USERS if self.plan.secured else {})
        return server

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{machine_name(each)}:{BROKER_PORT}" for each in self.plan.broker_ids)

    def new_client(
        self, on_error: OnError, properties: Mapping[str, str] | None = None
    ) -> tuple[VirtualLoop, Client]:
        """Our own client on a machine of its own; what it does runs on its loop."""
        owner = FIRST_CLIENT + len(self._clients)
        machine = self.internet.add_machine(f"10.1.{owner >> 8}.{owner & 255}", owner)
        clock = MachineClock(self.kernel)
        loop = VirtualLoop(self.kernel, machine, clock, on_error)
        self._clients.append(loop)
        made: list[Client] = []
        login = self.login_of(CLIENT) if properties is None else properties

        def make() -> None:
            entropy = SeededEntropy(self._seed, f"client {owner}")
            world = World(clock, TcpNetwork(clock), entropy)
            made.append(Client(self.bootstrap, world=world, properties=login))

        loop.perform(make)
        return loop, made[0]

    def login_of(self, user: str) -> dict[str, str]:
        """In the words of Kafka's clients; nothing where nobody has to log in. Controllers know
        PLAIN alone."""
        if not self.plan.secured:
            return {}
        mechanisms = [name for name, users in SCRAM_USERS.items() if user in users]
        mechanisms += ["PLAIN"] if user == CLIENT else []
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN" if user == OUTCAST else self._logins.choice(mechanisms),
            "sasl.username": user,
            "sasl.password": f"of {user}",
        }

    def clients(self) -> list[VirtualLoop]:
        return self._clients

    def bury(self) -> None:
        for loop in self._clients:
            loop.kill()
            loop.bury()
        for server in self.servers.values():
            server.bury()


def machine_name(node_id: int) -> str:
    return f"node-{node_id}"


def node_config(node_id: int, plan: ClusterPlan) -> NodeConfig:
    """As the plan has it, for runs that are short: members of groups are expelled, and others
    hear of it, before one is over."""
    name = machine_name(node_id)
    values = {**SHORT_SESSIONS, **node_settings(node_id, plan)}
    loaded = load_node_config(Inputs(parse_properties(write_properties(values), name)))
    assert loaded.config is not None, loaded.problems
    return loaded.config


def node_settings(node_id: int, plan: ClusterPlan) -> dict[str, str]:
    """As the plan has it, on the profile of `tidelog up`."""
    voters = [f"{each}@{machine_name(each)}:{CONTROLLER_PORT}" for each in plan.voter_ids]
    factor = str(plan.replication_factor)
    values = {
        **_role(node_id, plan),
        "node.id": str(node_id),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(voters),
        "log.dirs": DATA,
        "default.replication.factor": factor,
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "min.insync.replicas": str(max(1, plan.replication_factor - 1)),
        "transaction.state.log.min.isr": str(max(1, plan.replication_factor - 1)),
        "tidelog.disk.reserve.bytes": str(RESERVE_BYTES),
        **PROFILES[BRISK],
        **(SECURED if plan.secured else {}),
        **dict(plan.settings),
    }
    if "tidelog.http.listener" in values:
        values["tidelog.http.listener"] = f"{machine_name(node_id)}:{HTTP_PORT}"
    return values


def _role(node_id: int, plan: ClusterPlan) -> dict[str, str]:
    roles, listeners, name = [], [], machine_name(node_id)
    if node_id in plan.broker_ids:
        roles.append("broker")
        listeners.append(f"PLAINTEXT://{name}:{BROKER_PORT}")
    if node_id in plan.voter_ids:
        roles.append("controller")
        listeners.append(f"CONTROLLER://{name}:{CONTROLLER_PORT}")
    values = {"process.roles": ",".join(roles), "listeners": ",".join(listeners)}
    rack = plan.rack(node_id)
    return {**values, "broker.rack": rack} if rack else values
