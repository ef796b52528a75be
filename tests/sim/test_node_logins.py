"""Logins in the simulator: SASL is above the network, so whole nodes log in to each other there."""

from tidelog.client import Admin, NewRecord, NewTopic, Producer
from tidelog.client.errors import ClientError
from tidelog.host.ports import NetworkError
from tidelog.sim.kernel import Kernel
from tidelog.sim.nodes import rules
from tidelog.sim.nodes.cluster import NodeCluster
from tidelog.sim.nodes.cluster_plan import ClusterPlan

PLAIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="node" password="between us" user_node="between us" user_alice="tide";'
)
SETTINGS = (
    ("listener.security.protocol.map", "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"),
    ("inter.broker.listener.name", "PLAINTEXT"),
    ("sasl.enabled.mechanisms", "PLAIN"),
    ("sasl.mechanism.inter.broker.protocol", "PLAIN"),
    ("sasl.mechanism.controller.protocol", "PLAIN"),
    ("listener.name.plaintext.plain.sasl.jaas.config", PLAIN),
    ("listener.name.controller.plain.sasl.jaas.config", PLAIN),
    ("connections.max.reauth.ms", "2000"),
)
ALICE = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": "tide",
}
RECORDS = 60


class Town:
    """Three nodes whose logins hold for two seconds, and a client that writes all the time."""

    def __init__(self, password="tide"):
        self.kernel = Kernel(7)
        self.cluster = NodeCluster(self.kernel, 7, ClusterPlan(3, 3, settings=SETTINGS))
        self.problems, self.offsets = [], []
        given = {**ALICE, "sasl.password": password}
        note = self.problems.append
        self.loop, self.client = self.cluster.new_client(lambda *error: note(error), given)
        for server in self.cluster.servers.values():
            server.report_to(lambda *event: None, lambda *problem: note(problem))
            server.start()
        self.until(lambda: rules.unfinished(self.cluster.servers) is None)

    def until(self, condition, seconds=120):
        end_us = self.kernel.now_us + seconds * 1_000_000
        while not condition():
            assert self.kernel.now_us < end_us, f"still not after {seconds} s"
            self.kernel.run(self.kernel.now_us + 50_000, 100_000_000)

    def begin(self, work):
        tasks = []
        self.loop.perform(lambda: tasks.append(self.loop.create_task(work)))
        return tasks[0]

    def finish(self, task):
        self.until(task.done)
        return task.result()

    async def create(self):
        await Admin(self.client).create_topic(NewTopic("tides", 1, 3))

    async def write(self):
        producer = Producer(self.client)
        while len(self.offsets) < RECORDS:
            try:
                written = await producer.write("tides", [NewRecord(b"x", partition=0)])
                self.offsets.append(written[0].base_offset)
            except (ClientError, NetworkError):
                producer = Producer(self.client)
            await self.loop_pause()

    async def loop_pause(self):
        waited = self.loop.create_future()
        self.loop.call_later(0.1, waited.set_result, None)
        await waited

    def logins(self):
        """Of the nodes that run: how many succeeded, and how many failed."""
        running = [each.node for each in self.cluster.servers.values() if each.node is not None]
        counts = [count for node in running for count in node.security.logins()]
        return sum(good for _, good, _ in counts), sum(bad for _, _, bad in counts)


def story():
    town = Town()
    try:
        town.finish(town.begin(town.create()))
        before, _ = town.logins()
        town.finish(town.begin(town.write()))
        after, failed = town.logins()
        assert town.problems == []
        return town.offsets, before, after, failed, town.kernel.now_us
    finally:
        town.cluster.bury()


def test_nodes_and_clients_log_in_and_again_while_records_flow():
    offsets, before, after, failed, _ = story()
    assert offsets == list(range(RECORDS))
    assert failed == 0
    # Six seconds of writing, logins of two: whoever talks has logged in again three times.
    assert after - before > 20


def test_the_same_seed_logs_in_at_the_same_moments():
    assert story() == story()


def test_a_wrong_password_gets_nobody_anywhere():
    town = Town(password="ebb")
    try:
        refused = town.begin(town.create())
        town.until(refused.done)
        assert "SASL_AUTHENTICATION_FAILED" in str(refused.exception())
        assert town.logins()[1] == 1
    finally:
        town.cluster.bury()
