"""Faults of whole-node runs: each does what it says, ends, and is survived by a small cluster."""

import asyncio
import json

import pytest

from tidelog.client import Admin, NewRecord, NewTopic, Producer
from tidelog.client.consumer import Consumer
from tidelog.client.coordinator import OF_TRANSACTION, find_coordinator
from tidelog.client.errors import ClientError
from tidelog.client.transactional_producer import TransactionalProducer
from tidelog.host.ports import NetworkError
from tidelog.sim.entropy import stream
from tidelog.sim.kernel import Kernel
from tidelog.sim.nodes import disk_faults, process_faults, rules
from tidelog.sim.nodes.clients.liveness import open_transaction
from tidelog.sim.nodes.cluster import BROKER_PORT, DATA, NodeCluster
from tidelog.sim.nodes.cluster_plan import ClusterPlan
from tidelog.sim.nodes.fault_kinds import (
    AIMS,
    ALL_AT_ONCE,
    CONTROLLER,
    CRASH_IN_START,
    DRAWN_APART,
    FOLLOWER,
    KINDS,
    LEADER,
    LOSE_UNSYNCED,
    NodeFault,
)
from tidelog.sim.nodes.fault_plan import draw_apart, draw_faults
from tidelog.sim.nodes.faults import NodeFaults
from tidelog.sim.nodes.files import MachineFiles
from tidelog.sim.nodes.plan import draw_node_plan
from tidelog.sim.nodes.plots import PLOTS, draw_plot
from tidelog.sim.nodes.roles import Roles

TOPIC = "tides"
OF_MACHINES = process_faults.PERFORMERS.keys() | disk_faults.PERFORMERS.keys()
OFTEN = (
    ("log.flush.offset.checkpoint.interval.ms", "100"),
    ("log.flush.start.offset.checkpoint.interval.ms", "100"),
    ("log.roll.ms", "100"),
    ("metadata.log.dir", "/metadata"),
)
"""Damage needs checkpoints that say what is safe, and files that come to an end."""


class Town:
    """Three nodes, one client, and whoever breaks things."""

    def __init__(self, settings=(), voters=3):
        self.kernel = Kernel(1)
        self.cluster = NodeCluster(self.kernel, 1, ClusterPlan(3, voters, settings=settings))
        self.told, self.problems, self.acknowledged = [], [], {}
        self.faults = NodeFaults(self.cluster, lambda unclean: not unclean, self.told.append)
        self.roles = Roles(self.cluster.servers)
        self.loop, self.client = self.cluster.new_client(lambda *error: self.problems.append(error))
        self.producer, self.sent = Producer(self.client), 0
        for server in self.cluster.servers.values():
            server.report_to(lambda *event: None, lambda *problem: self.problems.append(problem))
            server.start()
        self.until_whole()
        self.finish(self.create())

    async def create(self):
        await Admin(self.client).create_topic(NewTopic(TOPIC, 1, 3))

    def run(self, seconds):
        self.kernel.run(self.kernel.now_us + int(seconds * 1_000_000), 100_000_000)

    def until(self, condition, seconds=60):
        end_us = self.kernel.now_us + seconds * 1_000_000
        while not condition():
            assert self.kernel.now_us < end_us, f"still not after {seconds} s"
            self.run(0.05)

    def until_whole(self):
        self.until(lambda: rules.unfinished(self.cluster.servers) is None)

    def spawn(self, work):
        tasks = []
        self.loop.perform(lambda: tasks.append(self.loop.create_task(work)))
        return tasks[0]

    def finish(self, work):
        task = self.spawn(work)
        self.until(task.done)
        return task.result()

    async def write(self, count):
        """Until so many more are acknowledged. A machine without power does not even refuse."""
        wanted = len(self.acknowledged) + count
        while len(self.acknowledged) < wanted:
            self.sent += 1
            value = b"%d" % self.sent
            try:
                written = await self.producer.write(TOPIC, [NewRecord(value, partition=0)])
            except (ClientError, NetworkError):
                self.producer = Producer(self.client)
            else:
                self.acknowledged[value] = written[0].base_offset

    async def read(self):
        consumer, found, empty = Consumer(self.client, {(TOPIC, 0): 0}), {}, 0
        while empty < 3:
            fetched = await consumer.read(max_wait_ms=300)
            empty += 1
            for each in fetched.values():
                for read in each.reads:
                    empty, found[bytes(read.record.value)] = 0, read.record.offset
        return found

    def begin(self, kind, *, lasts_ms=500, **rest):
        at_ms = self.kernel.now_ms + 1
        node, other = rest.pop("node", 1), rest.pop("other", 2)
        fault = NodeFault(at_ms, kind, node, other, lasts_ms, **rest)
        self.faults.schedule((fault,))
        self.run(0.002)
        return self.faults.counts[kind] > 0

    def server(self, aim):
        return self.roles.find(aim, 0, self.cluster.servers[1])

    def survives(self):
        """Everything heals, and what was acknowledged is there."""
        self.faults.heal(self.cluster.servers)
        self.until_whole()
        found = self.finish(self.read())
        assert {value: found.get(value) for value in self.acknowledged} == self.acknowledged
        assert self.problems == []
        return True


@pytest.fixture
def town():
    town = Town()
    yield town
    town.cluster.bury()


@pytest.fixture
def careful_town():
    town = Town(OFTEN)
    yield town
    town.cluster.bury()


# -- processes


@pytest.mark.parametrize("kind", ["kill", "power_loss", "stop", "pause"])
def test_a_leader_goes_away_for_a_while_and_comes_back(town, kind):
    town.finish(town.write(20))
    leader = town.server(LEADER)
    writing = town.spawn(town.write(20))
    assert town.begin(kind, aim=LEADER, lasts_ms=6_000)
    town.run(1)
    assert not leader.works
    town.until(writing.done)
    assert town.survives()
    assert leader.works


@pytest.mark.parametrize("amount", [4, 5])
@pytest.mark.parametrize("kind", ["crash_at_sync", "crash_at_change"])
def test_a_crash_waits_for_its_moment_among_the_changes_of_a_disk(town, kind, amount):
    leader = town.server(LEADER)
    assert town.begin(kind, aim=LEADER, amount=amount, lasts_ms=60_000)
    assert leader.running
    town.finish(town.write(20))
    town.until(lambda: leader.starts == 2)
    assert town.survives()


def test_a_crash_that_found_no_moment_is_called_off(town):
    assert town.begin("crash_at_change", amount=1_000_000, lasts_ms=100)
    town.run(0.2)
    assert town.cluster.servers[1].work.trap is None
    assert town.survives()


@pytest.mark.parametrize("amount", [0, 1, 6, 7])
def test_a_process_dies_again_amid_its_recovery(town, amount):
    leader = town.server(LEADER)
    town.finish(town.write(20))
    assert town.begin(CRASH_IN_START, aim=LEADER, amount=amount, lasts_ms=100)
    assert leader.machine.up is (amount % 2 == 0), "odd: power fails"
    town.until(lambda: leader.starts == 3)
    assert town.survives()


def test_a_process_dies_again_soon_after_its_start(town):
    follower = town.server(FOLLOWER)
    assert town.begin("kill_in_start", aim=FOLLOWER, amount=5, lasts_ms=100)
    town.until(lambda: follower.starts == 3)
    assert town.survives()


def test_power_fails_amid_an_orderly_stop(town):
    leader = town.server(LEADER)
    town.finish(town.write(20))
    assert town.begin("crash_in_stop", aim=LEADER, amount=1, lasts_ms=400)
    town.run(0.1)
    assert not leader.machine.up
    assert not leader.files.open(DATA).exists(".kafka_cleanshutdown")
    assert town.survives()


def test_a_thread_hangs_and_what_waits_for_it_waits(town):
    leader = town.server(LEADER)
    for pool in range(16):
        leader.stall_worker(pool, 2_000_000)
    begin_us = town.kernel.now_us
    town.finish(town.write(1))
    assert town.kernel.now_us - begin_us >= 2_000_000
    assert town.begin("stall_worker", amount=3)
    assert town.survives()


def test_clocks_jump_and_change_their_rate_for_a_while(town):
    clock = town.cluster.servers[1].clock
    before = clock.wall_ms() - town.kernel.now_ms
    assert town.begin("clock_jump", amount=3_600_000, lasts_ms=500)
    assert clock.wall_ms() - town.kernel.now_ms == before + 3_600_000
    assert town.begin("clock_rate", amount=1_100_000, lasts_ms=500)
    begin_us, begin_kernel_us = clock.monotonic_us(), town.kernel.now_us
    town.run(0.3)
    passed_us = town.kernel.now_us - begin_kernel_us
    assert clock.monotonic_us() - begin_us == pytest.approx(passed_us * 1.1, abs=2)
    town.run(1)
    assert clock.rate == 1_000_000
    assert clock.wall_ms() - town.kernel.now_ms == pytest.approx(before + 50, abs=5)
    assert town.survives()


def test_a_request_whose_handling_fails_is_a_problem_of_its_node(town):
    """Production hangs up, says so in its journal and goes on: nobody would hear of it here."""
    create_topics = 19

    def fail(call):
        raise KeyError(create_topics)

    for server in town.cluster.servers.values():
        for table in server.node.tables:
            table.handlers[create_topics] = fail
    asking = town.spawn(Admin(town.client).create_topic(NewTopic("other", 1, 3)))
    town.until(lambda: town.problems, 10)
    assert any("KeyError(19)" in text for _, text in town.problems)
    asking.cancel()


def harmless_amounts(kind):
    amounts = KINDS[kind].amounts or (0,)
    return [
        each for each in amounts if not NodeFault(0, kind, 1, 0, 0, amount=each).loses_unsynced
    ][:5]


@pytest.mark.parametrize("kind", sorted(OF_MACHINES - set(LOSE_UNSYNCED)))
def test_a_fault_that_loses_nothing_keeps_what_was_not_synced(careful_town, monkeypatch, kind):
    """Clusters rely on page caches where no fault that loses something is drawn."""
    town, lost = careful_town, []
    monkeypatch.setattr(MachineFiles, "lose_power", lambda *_: lost.append(kind))
    town.finish(town.write(50))
    town.run(1)
    for amount in harmless_amounts(kind):
        town.begin(kind, aim=FOLLOWER, amount=amount)
        town.finish(town.write(20))
        town.run(1)
        town.until_whole()
    assert town.faults.counts[kind]
    assert town.survives()
    assert not lost


# -- disks


@pytest.mark.parametrize("kind", ["write_error", "sync_error"])
@pytest.mark.parametrize("aim", [LEADER, FOLLOWER])
def test_a_node_whose_disk_fails_ends_at_once_and_is_started_again(town, kind, aim):
    server = town.server(aim)
    assert town.begin(kind, aim=aim, lasts_ms=1_000)
    writing = town.spawn(town.write(5))
    town.until(lambda: f"node {server.node_id} has ended: its disk failed" in town.told, 1)
    town.until(writing.done)
    assert town.survives()


def test_a_disk_that_cannot_be_read_keeps_a_node_from_starting(town):
    town.finish(town.write(5))
    server = town.server(FOLLOWER)
    assert town.begin("read_error", node=server.node_id, lasts_ms=1_000)
    server.kill()
    server.start()
    town.run(0.9)
    assert not server.ready
    assert server.starts > 2
    assert town.survives()


def test_the_disk_fails_while_a_broker_notes_its_registration(town):
    server = town.server(FOLLOWER)
    server.kill()
    server.files.open(DATA).inject("sync", path=".intact-since-epoch.tmp")
    server.start()
    town.until(lambda: server.starts == 3, 10)
    assert town.survives()


@pytest.mark.parametrize(("voters", "operation", "after"), [(3, "read", 1), (1, "sync", 0)])
def test_the_disk_fails_while_a_voter_looks_up_or_notes_its_vote(voters, operation, after):
    """The only voter votes for itself as it starts."""
    town = Town(voters=voters)
    server = town.cluster.servers[1]
    server.kill()
    name = "quorum-state" if operation == "read" else "quorum-state.tmp"
    server.files.open(DATA).inject(operation, path=f"__cluster_metadata-0/{name}", after=after)
    server.start()
    town.until(lambda: server.starts == 3, 10)
    assert town.survives()
    town.cluster.bury()


def test_a_full_disk_is_a_finding_until_there_is_room_again(town):
    server = town.server(LEADER)
    assert town.begin("disk_full", aim=LEADER, amount=40_000, lasts_ms=8_000)
    town.until(server.node.host.findings.all, 5)
    assert [finding.kind for finding in server.node.host.findings.all()] == ["disk-full"]
    town.finish(town.write(5))
    assert town.server(LEADER) is not server
    assert town.survives()


def test_a_disk_takes_what_still_fits(town):
    files = town.cluster.servers[1].files
    files.fill(10)
    disk = files.open(DATA)
    file = disk.open("notes", create=True)
    with pytest.raises(OSError, match="No space left"):
        file.write(0, b"sixteen letters!")
    assert file.read(0, 100) == b"sixteen le"
    file.truncate(4)
    file.write(4, b"123456")
    assert files.space(DATA).usable_bytes == 0
    files.heal()


def test_a_flipped_bit_is_repaired_from_another_replica(careful_town):
    town = careful_town
    town.finish(town.write(50))
    town.run(1)
    server = town.server(LEADER)
    before = server.files.open(DATA).files()
    assert town.begin("bit_flip", aim=LEADER, amount=7)
    damaged = server.files.open(DATA).files()
    changed = [path for path in before if before[path] != damaged[path]]
    assert len(changed) == 1
    assert not town.begin("wipe", aim=LEADER)
    assert town.faults.declined == {"wipe": 1}
    assert town.survives()
    town.until(lambda: server.files.open(DATA).files()[changed[0]] == before[changed[0]])


def test_a_disk_that_fails_is_not_damaged_as_well(careful_town):
    """Who looks for a batch to damage would meet the failure, in place of the node."""
    town = careful_town
    town.finish(town.write(50))
    town.run(1)
    assert town.begin("read_error", aim=LEADER, amount=10, lasts_ms=50)
    assert not town.begin("bit_flip", aim=LEADER, amount=7)
    assert town.survives()


def test_a_lost_file_is_fetched_again(careful_town):
    town = careful_town
    town.finish(town.write(50))
    town.run(1)
    server = town.server(FOLLOWER)
    before = server.files.open(DATA).files()
    assert town.begin("segment_loss", aim=FOLLOWER)
    lost = [path for path in before if path not in server.files.open(DATA).files()]
    assert len(lost) == 1
    assert lost[0].endswith(".log")
    assert town.survives()


def test_a_broker_comes_back_with_empty_directories(careful_town):
    town = careful_town
    town.finish(town.write(50))
    server = town.server(LEADER)
    assert town.begin("wipe", aim=LEADER, lasts_ms=1_000)
    assert not any(path.startswith(TOPIC) for path in server.files.open(DATA).files())
    assert town.survives()
    assert server.node.broker.replicas.named(TOPIC, 0).log.log_end_offset == 50


def test_a_broker_with_one_disk_for_everything_is_not_wiped(town):
    assert not town.begin("wipe")
    assert town.faults.declined == {"wipe": 1}


# -- network


def cuts(town, one, other):
    servers = town.cluster.servers
    is_cut = town.cluster.internet.is_cut
    one, other = servers[one].machine, servers[other].machine
    return is_cut(one, other), is_cut(other, one)


def test_cuts_hold_until_they_end(town):
    both, none = (True, True), (False, False)
    assert town.begin("cut", lasts_ms=100)
    assert cuts(town, 1, 2) == both
    assert town.begin("cut_one_way", node=2, other=3, lasts_ms=100)
    assert cuts(town, 2, 3) == (True, False)
    assert town.begin("isolate", node=3, lasts_ms=100)
    assert cuts(town, 3, 1) == both
    town.run(0.2)
    assert [cuts(town, *pair) for pair in ((1, 2), (2, 3), (3, 1))] == [none] * 3
    assert town.begin("split", amount=0b001, lasts_ms=100)
    assert [cuts(town, *pair) for pair in ((1, 2), (2, 3), (3, 1))] == [both, none, both]
    assert town.survives()


def test_a_node_is_cut_off_from_the_controller_alone(town):
    controller = town.server(CONTROLLER)
    others = [each for each in town.cluster.servers if each != controller.node_id]
    assert town.begin("controller_cut", node=others[0])
    assert cuts(town, others[0], controller.node_id) == (True, True)
    assert cuts(town, *others) == (False, False)
    assert town.survives()


@pytest.mark.parametrize("amount", [1, 2, 3])
def test_a_leader_is_cut_off_from_its_clients(town, amount):
    writing = town.spawn(town.write(5))
    assert town.begin("client_cut", aim=LEADER, amount=amount, lasts_ms=3_000)
    town.run(2.5)
    assert not writing.done()
    town.until(writing.done)
    assert town.survives()


def test_a_flapping_link_is_cut_by_turns(town):
    assert town.begin("flap", amount=100, lasts_ms=1_000)
    seen = []
    for _ in range(20):
        seen.append(cuts(town, 1, 2)[0])
        town.run(0.05)
    assert {True, False} == set(seen)
    town.run(0.2)
    assert cuts(town, 1, 2) == (False, False)
    assert town.survives()


def topics_known_to(server):
    return {topic.name for topic in server.node.broker.image.topics.values()}


def test_a_broker_hears_no_metadata_for_a_while(town):
    controller = town.server(CONTROLLER).node_id
    deaf, other = [
        server for server in town.cluster.servers.values() if server.node_id != controller
    ]
    assert town.begin("late_metadata", node=deaf.node_id, lasts_ms=800)
    town.finish(Admin(town.client).create_topic(NewTopic("more", 1, 1)))
    town.run(0.3)
    assert "more" in topics_known_to(other)
    assert "more" not in topics_known_to(deaf)
    town.until(lambda: "more" in topics_known_to(deaf), 2)
    assert town.survives()


def test_a_follower_gets_no_records_for_a_while(town):
    town.finish(town.write(1))
    assert town.begin("late_records", aim=FOLLOWER, lasts_ms=1_000)
    writing = town.spawn(town.write(3))
    town.run(0.8)
    assert not writing.done()
    town.until(writing.done, 2)
    assert town.survives()


async def commit_a_transaction(town, name):
    producer = TransactionalProducer(town.client, name)
    await producer.begin()
    await producer.write(TOPIC, [NewRecord(b"decided", partition=0)])
    await producer.commit()


def test_markers_of_a_coordinator_come_late(town):
    servers = town.cluster.servers.values()
    leader = town.server(LEADER).node_id
    coordinators = {
        name: town.finish(find_coordinator(town.client, OF_TRANSACTION, name))
        for name in "abcdefgh"
    }
    name = next(name for name, broker in coordinators.items() if broker != leader)
    assert town.begin("late_markers", node=coordinators[name], lasts_ms=1_000)
    town.finish(commit_a_transaction(town, name))
    town.run(0.3)
    assert "tides-0" in open_transaction(servers)
    town.until(lambda: open_transaction(servers) is None, 1)
    assert town.survives()


def isr_of(town):
    return next(iter(town.roles.image().topics.values())).partitions[0].isr


@pytest.mark.parametrize(("percent", "joins_meanwhile"), [(100, False), (20, True)])
def test_proposals_of_a_leader_come_late(town, percent, joins_meanwhile):
    """The leader asks again after two seconds, on another connection."""
    town.finish(town.write(1))
    assert town.begin("pause", aim=FOLLOWER, lasts_ms=7_000)
    town.until(lambda: len(isr_of(town)) == 2, 6)
    town.until(lambda: all(server.works for server in town.cluster.servers.values()), 8)
    assert town.begin("late_proposals", aim=LEADER, amount=percent, lasts_ms=4_000)
    town.run(3)
    assert (len(isr_of(town)) == 3) is joins_meanwhile
    town.until(lambda: len(isr_of(town)) == 3, 5)
    assert town.survives()


def test_whoever_connects_waits_for_an_answer(town):
    assert town.begin("slow_handshake", node=2, amount=450, lasts_ms=1_000)
    opening = town.spawn(town.loop.create_connection(asyncio.Protocol, "node-2", BROKER_PORT))
    town.run(0.4)
    assert not opening.done()
    town.run(0.2)
    transport, _ = opening.result()
    transport.close()
    assert town.survives()


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "reset"},
        {"kind": "reset_all", "aim": LEADER},
        {"kind": "tear", "aim": LEADER},
        {"kind": "let_wait", "aim": LEADER, "amount": 0},
        {"kind": "let_wait", "aim": LEADER, "amount": 1},
        {"kind": "narrow_window", "aim": LEADER, "amount": 0},
        {"kind": "narrow_window", "aim": LEADER, "amount": 100},
        {"kind": "clog", "amount": 2_000},
        {"kind": "slow_network"},
        {"kind": "slow_disk", "aim": LEADER, "amount": 200},
        {"kind": "pause_client", "amount": 1},
        {"kind": "elect"},
    ],
    ids=lambda fault: "-".join(str(value) for value in fault.values()),
)
def test_writing_goes_on_through(town, fault):
    writing = town.spawn(town.write(100))
    assert town.begin(lasts_ms=2_000, **fault)
    town.until(writing.done, 120)
    assert town.survives()


# -- plans


def test_every_kind_is_drawn_in_plain_values():
    drawn = {}
    for seed in range(60):
        faults = draw_faults(stream(seed, "faults"), 3, 1_000, 20_000, ())
        assert list(faults) == sorted(faults)
        assert not {fault.kind for fault in faults} & set(DRAWN_APART)
        for fault in (*faults, *draw_apart(seed, 3, 1_000, 20_000)):
            drawn.setdefault(fault.kind, fault)
            assert NodeFault(*json.loads(json.dumps(fault))) == fault
            assert str(fault).startswith(fault.kind.replace("_", " "))
            assert fault.aim in ("", *AIMS)
    assert drawn.keys() == KINDS.keys()


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_is_a_few_ordinary_faults_in_step(name):
    for seed in range(20):
        faults = draw_plot(name, stream(seed, "plot"), ClusterPlan(3, 3), 5_000)
        assert len(faults) > 1
        assert {fault.kind for fault in faults} <= KINDS.keys()
        assert {fault.aim for fault in faults} <= {"", *AIMS}
        assert all(1 <= fault.node <= 3 for fault in faults)
        assert all(5_000 <= fault.at_ms < 25_000 and fault.lasts_ms > 0 for fault in faults)


def test_a_run_may_consist_of_one_plot():
    plans = [draw_node_plan(seed, ("epoch_twice",)) for seed in range(9)]
    kinds = {fault.kind for plan in plans for fault in plan.faults}
    assert kinds == {"pause", "kill", "power_loss", "stop"}


def test_some_faults_hit_all_nodes_at_once():
    faults = [
        fault
        for seed in range(40)
        for fault in draw_faults(stream(seed, "faults"), 3, 1_000, 20_000, ALL_AT_ONCE)
    ]
    assert {fault.kind for fault in faults if fault.node == 0} == set(ALL_AT_ONCE)
