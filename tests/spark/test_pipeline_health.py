"""Health from events: who led when, how long too few were in sync, how far replicas lag."""

import json
import re

import pytest
from deltalake import DeltaTable

from support.pipelines import Home, quick
from support.sink_bench import committed
from support.spark_story import write
from tidelog.core import events as e
from tidelog.core.types import PartitionId
from tidelog.observe.render import Renderer
from tidelog.observe.stream import NumberedEvent
from tidelog.spark.pipelines.health import Report
from tidelog.spark.pipelines.health_events import EVENTS_TOPIC, parsed
from tidelog.spark.pipelines.health_figures import REPLICAS_SCHEMA, figures
from tidelog.spark.pipelines.health_page import draw_leaders
from tidelog.testing import Cluster


def partition(topic, index=0):
    return PartitionId(topic[:1].encode() * 16, index)


ORDERS, PAYMENTS, REFUNDS, STOCK = map(partition, ("orders", "pay-ments", "refunds", "stock"))
NAMES = {
    each.topic_id: name
    for each, name in (
        (ORDERS, "orders"),
        (PAYMENTS, "pay-ments"),
        (REFUNDS, "refunds"),
        (STOCK, "stock"),
    )
}
END_MS = 60_200


class Told:
    """The event topic as nodes would have written it: numbers of each node, times as given."""

    def __init__(self):
        self.rows = []
        self.numbers = {}
        self.renderer = Renderer(NAMES.get)

    def by(self, node, at_ms, *events, stream=1):
        for event in events:
            number = self.numbers[node, stream] = self.numbers.get((node, stream), 0) + 1
            rendered = self.renderer.numbered(node, NumberedEvent(number, at_ms, 0, event))
            rendered["stream"] = stream
            self.write(json.dumps(rendered))
        return self

    def write(self, text):
        self.rows.append((text.encode(), len(self.rows)))

    def figures(self, spark, replicas):
        rows = spark.createDataFrame(self.rows, "value BINARY, offset BIGINT")
        assigned = [(each.topic_id.hex(), each.partition, list(who)) for each, who in replicas]
        return figures(parsed(rows), spark.createDataFrame(assigned, REPLICAS_SCHEMA))


def elected(previous, leader, leader_epoch, partition_epoch, isr, *, unclean=False, of=ORDERS):
    return e.LeaderElected(of, previous, leader, leader_epoch, partition_epoch, isr, unclean)


def isr(previous, now, partition_epoch, of=ORDERS):
    return e.IsrCommitted(of, previous, now, (), partition_epoch)


def appended(broker, base_offset, next_offset, leader_epoch, of=ORDERS):
    return e.RecordsAppended(of, broker, base_offset, next_offset, leader_epoch)


def a_failover(told):
    """Broker 1 leads orders-0 and is lost at 20 s; 2 takes over; 1 is back in the ISR at 50 s."""
    told.by(3, 1_000, e.ControllerClaimed(3, 7), elected(-1, 1, 0, 0, (1, 2, 3)))
    told.by(1, 1_100, e.BecameLeader(ORDERS, 1, 0, 0, 0), appended(1, 0, 1, 0))
    told.by(1, 19_000, appended(1, 1, 90, 0)).by(2, 2_000, appended(2, 0, 1, 0))
    told.by(2, 19_950, appended(2, 1, 100, 0)).by(3, 19_960, appended(3, 0, 100, 0))
    told.by(3, 20_200, elected(1, 2, 1, 1, (2, 3)), isr((1, 2, 3), (2, 3), 1))
    told.by(3, 20_200, e.BrokerFenced(1, 5))
    told.by(2, 20_300, e.BecameLeader(ORDERS, 2, 1, 100, 100), appended(2, 100, 101, 1))
    told.by(2, 41_000, appended(2, 101, 500, 1)).by(3, 41_100, appended(3, 100, 470, 1))
    told.by(1, 49_000, e.LogTruncated(ORDERS, 1, 103, 100, False), stream=2)
    told.by(1, 49_900, appended(1, 100, 500, 1), stream=2)
    told.by(3, 50_200, isr((2, 3), (2, 3, 1), 2))
    told.by(3, END_MS, e.BrokerRegistered(9, 1))


def nobody_can_lead(told):
    told.by(11, 0, e.ControllerClaimed(11, 1), elected(-1, 12, 0, 0, (12,), of=PAYMENTS))
    told.by(11, 5_000, elected(12, -1, 1, 1, (12,), of=PAYMENTS), e.BrokerFenced(12, 3))
    told.by(11, 9_000, elected(-1, 13, 2, 2, (13,), unclean=True, of=PAYMENTS))
    told.by(13, 9_500, e.BecameLeader(PAYMENTS, 13, 2, 0, 0))


def two_controllers(told):
    """The old one is five seconds ahead, and its last batch is written after the new one's first,
    one event of it twice, because the answer was lost."""
    told.by(21, 10_000, e.ControllerClaimed(21, 3), elected(-1, 22, 0, 0, (22, 23), of=REFUNDS))
    late = Told()
    late.numbers[21, 1] = 2
    late.by(21, 25_000, elected(22, 23, 1, 1, (23,), of=REFUNDS))
    late.by(21, 25_000, isr((22, 23), (23,), 1, of=REFUNDS))
    told.by(22, 21_000, e.ControllerClaimed(22, 4), isr((23,), (23, 22), 2, of=REFUNDS))
    told.by(22, 21_000, elected(23, 22, 2, 3, (23, 22), of=REFUNDS))
    for value, _ in [*late.rows, late.rows[0]]:
        told.write(value.decode())


def leaders_that_are_not_missed(told):
    """Nor is the first one told: the controller that made the partition died with its events."""
    told.by(31, 0, e.ControllerClaimed(31, 1))
    told.by(31, 1_000, elected(32, 33, 1, 1, (32, 33), of=STOCK))
    told.by(31, 9_000, e.ControlledShutdownStarted(33, 8))
    told.by(31, 9_000, elected(33, 32, 2, 2, (32,), of=STOCK))


@pytest.fixture(scope="module")
def found(spark):
    """All stories in one topic, so that Spark plans once."""
    told = Told()
    told.write("not json")
    told.write('{"event": "SomethingNew"}')
    for story in (a_failover, nobody_can_lead, two_controllers, leaders_that_are_not_missed):
        story(told)
    replicas = [(ORDERS, (1, 2, 3)), (PAYMENTS, (12, 13)), (REFUNDS, (22, 23))]
    with quick(spark):
        made = told.figures(spark, replicas)
        return {name: frame.collect() for name, frame in made._asdict().items()}


def of(rows, topic):
    return [each for each in rows if each.topic == topic]


def test_a_failover_has_its_gap_from_the_clock_of_the_new_leader(found):
    (change,) = of(found["leader_changes"], "orders")
    assert (change["index"], change["from"], change.to) == (0, 1, 2)
    assert (change.leader_epoch, change.claim, change.unclean) == (1, 7, False)
    assert (change.cause, change.leaderless_ms) == ("fenced", 100)
    assert change.gap_ms == 20_300 - 19_950


def test_time_under_replicated_runs_from_the_shrink_to_the_expansion(found):
    (partition,) = of(found["partitions"], "orders")
    assert (partition.under_ms, partition.under_times, partition.is_under) == (30_000, 1, False)
    assert (partition.leader, partition.leader_epoch, partition.isr) == (2, 1, [2, 3, 1])
    assert (partition.isr_left, partition.isr_joined, partition.leader_changes) == (1, 1, 1)
    assert (partition.gap_max_ms, partition.offline_ms, partition.unclean) == (350, 0, 0)


def test_lag_is_behind_the_furthest_replica_of_the_newest_leader_epoch(found):
    lag = {each.broker: each for each in found["replicas"]}
    samples = {(each.broker, each.window_ms): each.lag for each in found["lag"]}
    assert samples[1, 10_000] == 10, "the leader's last half second was not told: it was killed"
    assert samples[1, 40_000] == 0
    assert samples[3, 40_000] == 30
    assert (lag[3].lag_max, lag[3].lag_last, lag[2].lag_max) == (30, 30, 0)
    assert (lag[1].truncations, lag[1].truncated_records) == (1, 3)


def test_brokers_are_told_by_what_they_lead_and_how_often_they_were_missed(found):
    brokers = {each.broker: each for each in found["brokers"]}
    assert [(brokers[each].leads, brokers[each].preferred) for each in (1, 2)] == [(0, 1), (1, 0)]
    assert [brokers[each].in_sync for each in (1, 2, 3)] == [1, 1, 1]
    assert (brokers[1].fenced, brokers[1].isr_left, brokers[2].fenced) == (1, 1, 0)
    assert (brokers[12].out_of_sync, brokers[13].in_sync) == (1, 1)


def test_clocks_that_differ_and_events_that_come_late_do_not_change_the_order(found):
    spans = sorted(of(found["spans"], "refunds"), key=lambda each: each.partition_epoch)
    assert [each.leader for each in spans] == [22, 23, 23, 22]
    assert [each.claim for each in spans] == [3, 3, 4, 4]
    assert [each.for_ms for each in spans] == [15_000, 0, 0, END_MS - 21_000]
    changes = sorted(of(found["leader_changes"], "refunds"), key=lambda each: each.claim)
    assert [(each["from"], each.to, each.claim) for each in changes] == [(22, 23, 3), (23, 22, 4)]


def test_a_partition_that_nobody_could_lead_is_offline_until_somebody_does(found):
    (change,) = of(found["leader_changes"], "pay-ments")
    assert (change["from"], change.to, change.cause, change.unclean) == (12, 13, "fenced", True)
    assert (change.leaderless_ms, change.gap_ms) == (4_500, None)
    (partition,) = of(found["partitions"], "pay-ments")
    assert (partition.offline_ms, partition.is_under) == (4_000, True)
    assert partition.under_since_ms == 0


def test_leaders_that_were_moved_or_said_goodbye_are_no_failures(found):
    changes = sorted(of(found["leader_changes"], "stock"), key=lambda each: each.leader_epoch)
    assert [(each["from"], each.to, each.cause) for each in changes] == [
        (32, 33, "moved"),
        (33, 32, "shutdown"),
    ]


def test_a_topic_that_is_gone_is_told_as_far_as_it_is_known(found):
    (partition,) = of(found["partitions"], "stock")
    assert (partition.exists, partition.is_under, partition.replicas) == (False, False, 2)


# ---- a real cluster ----


@pytest.fixture(scope="module")
def watched():
    with Cluster(brokers=3, config={"tidelog.events.topic.enable": True}) as cluster:
        yield cluster


def told_events(cluster):
    """Nodes write events every half second. What one has not written yet dies with it."""
    return [json.loads(each) for each in committed(cluster, EVENTS_TOPIC)]


def led_topics(cluster):
    """Topics whose first leader is told."""
    return {each["topic"] for each in told_events(cluster) if each["event"] == "LeaderElected"}


def is_told(cluster, topic, leader):
    """Whether the end of the story is."""
    ours = [each for each in told_events(cluster) if each.get("topic") == topic]
    appended = any(
        each["event"] == "RecordsAppended" and (each["leader_epoch"], each["broker"]) == (1, leader)
        for each in ours
    )
    back = any(each["event"] == "IsrCommitted" and len(each["isr"]) == 3 for each in ours)
    return appended and back


@pytest.mark.long
def test_a_killed_leader_is_a_failover_in_the_report(watched, spark, tmp_path):
    topic = watched.topic("watched", replication_factor=3)
    write(watched, topic, range(5))
    old = watched.partition(topic, 0).leader
    watched.wait(lambda: led_topics(watched) >= {topic, EVENTS_TOPIC})
    watched.kill(old)
    watched.wait(lambda: watched.partition(topic, 0).leader not in (None, old))
    write(watched, topic, range(5))
    new = watched.partition(topic, 0).leader
    watched.restart(old)
    watched.wait(lambda: len(watched.partition(topic, 0).isr) == 3)
    watched.wait(lambda: is_told(watched, topic, new))
    lake, page = tmp_path / "lake", tmp_path / "page"
    home = Home(tmp_path / "pipelines")
    given = ["health", "-b", watched.bootstrap_servers, "--to", str(lake), "--plot", str(page)]
    with quick(spark):
        document = home.done(*given, "-o", "json").document
    (change,) = [each for each in document["leader_changes"] if each["topic"] == topic]
    (partition,) = [each for each in document["partitions"] if each["topic"] == topic]
    assert (change["from"], change["to"], change["cause"]) == (old, new, "fenced")
    assert change["gap_ms"] > 0
    assert sorted(partition["isr"]) == [1, 2, 3]
    assert (partition["under_times"], partition["is_under"]) == (1, False)
    assert partition["under_ms"] > 0
    assert sum(each["leads"] for each in document["brokers"]) == len(document["partitions"])
    events = DeltaTable(str(lake / "events")).to_pyarrow_table(columns=["topic_offset"])
    offsets = events["topic_offset"].to_pylist()
    assert len(offsets) == len(set(offsets)) >= document["events"]
    kept = DeltaTable(str(lake / "leader_changes")).to_pyarrow_table().to_pylist()
    assert change["gap_ms"] in [each["gap_ms"] for each in kept]
    assert sorted(each.name for each in page.iterdir()) == [
        "gaps.png",
        "index.html",
        "lag.png",
        "leaders.png",
    ]
    text = (page / "index.html").read_text("utf-8")
    assert "watched-0" in text
    assert text.count("data:image/png;base64,") == 3
    asked = [
        each
        for each in re.findall(r"(?:src|href)=\"([^\"]*)", text)
        if not each.startswith("data:")
    ]
    assert asked == [], "the page asks nobody for anything"
    status = home.status("health")
    assert (status["state"], status["arguments"]["to"]) == ("finished", str(lake))


def test_a_partition_whose_leader_is_not_known_is_drawn_as_unknown():
    """The first event that is kept of a partition may be a change of its ISR."""
    row = {"topic": "old", "index": 0, "leader_changes": 0, "under_times": 1}
    span = {"topic": "old", "index": 0, "from_ms": 1_000, "for_ms": 500, "is_under": True}
    spans = [span | {"leader": leader} for leader in (None, -1, 3)]
    report = Report(3, 1_000, 3_000, [row], [], [], [], spans, [])
    figure = draw_leaders(report)
    assert [text.get_text() for text in figure.axes[0].texts] == ["?", "–", "3"]
