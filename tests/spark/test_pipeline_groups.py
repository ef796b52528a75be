"""Mirrored groups: each goes on over there where it was here, or a little before, never behind."""

import contextlib
from functools import partial

import pyarrow as pa
import pytest
from confluent_kafka import Consumer as ConfluentConsumer

from support.pipelines import Home, quick
from support.sink_bench import batch, deliver, settings_for
from support.spark_story import write
from tidelog.client import Client, ClusterUnreachable, Consumer, NewRecord
from tidelog.client.groups import GroupAdmin
from tidelog.client.offsets import LATEST, READ_COMMITTED, find_offset
from tidelog.client.transactional_producer import TransactionalProducer
from tidelog.spark.delivery import Delivery
from tidelog.spark.mirror_delivery import MirrorDelivery
from tidelog.spark.offset_map import MapKey, OffsetMapLog, translated
from tidelog.spark.pipelines.group_offsets import (
    ACTIVE,
    ITS_OWN,
    TRANSLATED,
    GroupOffsets,
    GroupSync,
    Mirrored,
)
from tidelog.spark.security_options import Access
from tidelog.spark.staging import Attempt
from tidelog.spark.writer import TaskRows
from tidelog.testing import Cluster


@pytest.fixture(scope="module")
def other():
    with Cluster(brokers=1) as running:
        yield running


@pytest.fixture
def home(tmp_path, spark):
    with quick(spark):
        yield Home(tmp_path / "pipelines")


def commit(cluster, group, offsets):
    cluster.ask(lambda client: GroupAdmin(client).move(group, offsets))


def committed(cluster, group):
    found = cluster.ask(lambda client: GroupAdmin(client).committed(group))
    return {where: each.offset for where, each in found.items()}


def read_from(cluster, topic, offset, partition=0):
    """Values of committed records from there on."""

    async def story(client: Client):
        end = await find_offset(client, topic, partition, LATEST, isolation=READ_COMMITTED)
        consumer = Consumer(client, {(topic, partition): offset}, committed=True)
        read = []
        while consumer.positions[topic, partition] < end.offset:
            for fetched in (await consumer.read()).values():
                read += [int(each.record.value) for each in fetched.reads]
        return read

    return cluster.ask(story)


def write_and_abort(cluster, topic, values):
    """Records that nobody sees, and a marker: holes."""

    async def story(client: Client):
        producer = TransactionalProducer(client, f"{topic}-aborter")
        await producer.begin()
        await producer.write(topic, [NewRecord(str(each).encode(), partition=0) for each in values])
        await producer.abort()

    cluster.ask(story)


@contextlib.contextmanager
def member_of(cluster, group, topic):
    """A client that is a member of the group while the block lasts."""
    consumer = ConfluentConsumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(0.1)
        yield
    finally:
        consumer.close()


@pytest.mark.long
def test_groups_go_on_over_there_and_those_that_live_there_are_left_alone(home, cluster, other):
    topic = cluster.topic("grouped", partitions=2)
    write(cluster, topic, range(10))
    write_and_abort(cluster, topic, [90, 91, 92])
    write(cluster, topic, range(10, 15))
    copy = "copy.grouped"
    given = ["mirror", topic, "--from", cluster.bootstrap_servers, "--once", "--prefix", "copy."]
    given += ["--to", other.bootstrap_servers, "--groups", "reader-.*", "--max-records", "6"]
    commit(cluster, "reader-first", {(topic, 0): 4})
    commit(cluster, "reader-done", {(topic, 0): 19, (topic, 1): 0})
    commit(cluster, "reader-there", {(topic, 0): 2})
    commit(cluster, "reader-own", {(topic, 0): 2})
    commit(cluster, "stranger", {(topic, 0): 2})
    other.topic(copy, partitions=2)
    commit(other, "reader-own", {(copy, 0): 0})
    with member_of(other, "reader-there", copy):
        ran = home.done(*given)
    assert "group reader-first: translated" in ran.stderr
    assert f"group reader-there: {ACTIVE}, so it is left alone" in ran.stderr
    assert f"group reader-own: {ITS_OWN}, so it is left alone" in ran.stderr
    assert committed(other, "stranger") == {}
    assert committed(other, "reader-there") == {}
    assert committed(other, "reader-own") == {(copy, 0): 0}
    assert list(committed(other, "reader-done")) == [(copy, 0)], "nothing of 1 was copied"
    assert read_from(other, copy, committed(other, "reader-done")[copy, 0]) == []
    first = read_from(other, copy, committed(other, "reader-first")[copy, 0])
    assert first == list(range(4, 15)), "no hole before it, so nothing is read again"
    write(cluster, topic, range(15, 17))
    commit(cluster, "reader-first", {(topic, 0): 14})
    home.done(*given)
    after = read_from(other, copy, committed(other, "reader-first")[copy, 0])
    assert after[-6:] == list(range(11, 17)), "nothing is skipped"
    assert len(after) <= 6 + 4, "and no more is read again than there are holes"
    groups = home.status("mirror-grouped")["progress"]["groups"]
    assert groups["reader-first"] == {"state": TRANSLATED, "partitions": 1}
    assert groups["reader-own"]["state"] == ITS_OWN
    assert "group reader-own: own offsets over there" in home.done("status").stdout


def copied(settings, values, first, *, number, kind=MirrorDelivery):
    """One batch of a mirror by plain objects: values that lay at `first` and behind it."""
    rows = pa.record_batch(
        {
            "topic": pa.array([settings["topic"]] * len(values)),
            "partition": pa.array([0] * len(values), pa.int32()),
            "value": pa.array([str(each).encode() for each in values], pa.binary()),
            "sourceOffset": pa.array(range(first, first + len(values)), pa.int64()),
        }
    )
    of_sink = settings["of_sink"]
    tasks = TaskRows(of_sink, ("topic", "partition", "value"))
    staged = tasks.stage(iter([rows]), Attempt("q", number, 0), "run")
    kind = partial(kind, cluster_id="far")
    return deliver(of_sink, batch(settings["topic"], number), [staged], kind)


def sink_of(cluster, topic):
    return {"topic": topic, "of_sink": settings_for(cluster, offsetMap="far")}


def spans(cluster, topic):
    async def story(client: Client):
        maps = OffsetMapLog(client)
        await maps.refresh()
        return maps.of(MapKey("far", topic, 0))

    return cluster.ask(story)


class Crash(BaseException):
    pass


class Dies(MirrorDelivery):
    """Ends like a killed process: rows and map are written, and nothing is committed."""

    async def end(self, producer):
        raise Crash


class LosesTheAnswer(MirrorDelivery):
    async def end(self, producer):
        await Delivery.end(self, producer)
        raise ClusterUnreachable("somewhere", "the answer is lost")


def test_the_map_says_where_records_lie_whatever_became_of_a_commit(cluster):
    topic = cluster.topic("mapped", partitions=1)
    sink = sink_of(cluster, topic)
    assert copied(sink, range(5), 100, number=0)
    with pytest.raises(Crash):
        copied(sink, range(5, 9), 105, number=1, kind=Dies)
    assert len(spans(cluster, topic)) == 1, "what is not committed is not in the map"
    assert copied(sink, range(5, 9), 105, number=1)
    assert not copied(sink, range(5, 9), 105, number=1), "a batch that comes again is in it once"
    assert not copied(sink, range(9, 12), 109, number=2, kind=LosesTheAnswer)
    known = spans(cluster, topic)
    assert [each.records for each in known] == [5, 4, 3]
    for offset in range(100, 113):
        there = translated(known, offset)
        assert read_from(cluster, topic, there) == list(range(offset - 100, 12)), offset


def test_a_group_that_comes_to_life_while_it_is_moved_is_left_alone(cluster, other):
    topic = cluster.topic("raced", partitions=1)
    target = other.topic("raced", partitions=1)
    commit(cluster, "racer", {(topic, 0): 3})
    sink = {"topic": target, "of_sink": settings_for(other, offsetMap="far")}
    assert copied(sink, range(5), 0, number=0)
    access = [Access(each.bootstrap_servers) for each in (cluster, other)]
    offsets = GroupOffsets(Mirrored(*access, "far", "", lambda group: group == "racer"))
    with member_of(other, "racer", target):
        assert offsets.sync()["racer"].state == ACTIVE
    assert offsets.sync()["racer"].state == TRANSLATED
    assert committed(other, "racer") == {(target, 0): 3}
    commit(cluster, "racer", {(topic, 0): 1})
    assert offsets.sync()["racer"].state == TRANSLATED
    assert committed(other, "racer") == {(target, 0): 1}, "it went back here, so it does there"


def test_a_cluster_that_does_not_answer_is_told_once_and_asked_again():
    told, noted = [], []

    class Silent:
        def sync(self):
            raise ClusterUnreachable("b:9092", "refused")

    sync = GroupSync(Silent(), 0.0, told.append, noted.append)
    for _ in range(3):
        sync.between()
    assert len(told) == 1
    assert "offsets of groups are not translated" in told[0]
    assert noted == []
