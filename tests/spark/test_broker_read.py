"""Tasks read ranges of offsets through brokers, without Spark around them."""

import logging
import pickle
import re

import pyarrow as pa
import pytest

from tidelog.client.batch_fetch import Span, as_region
from tidelog.client.offsets import trim
from tidelog.client.producer import NewRecord, Producer
from tidelog.client.transactional_producer import TransactionalProducer
from tidelog.spark.broker_read import ReadPlan, read_ranges, region_pieces
from tidelog.spark.client_settings import ClientSettings
from tidelog.spark.connection import close_all
from tidelog.spark.failure import DataLoss, TidelogError
from tidelog.spark.ranges import OffsetRange
from tidelog.wire.arrow import RECORD_COLUMNS, RECORD_COLUMNS_WITH_HEADERS, record_schema
from tidelog.wire.protocol.schemas.fetch_response import PartitionData
from tidelog.wire.records import CODEC_NAMES, Record, encode

# An answer has one or two batches of ten, so that every range takes several.
SMALL = ClientSettings(partition_max_bytes=400, max_wait_ms=50)


@pytest.fixture(autouse=True)
def connections():
    yield
    close_all()


def numbered(numbers):
    return [NewRecord(b"value %d" % n, b"key %d" % n, partition=0) for n in numbers]


def write(cluster, topic, count, **how):
    async def produce(client):
        producer = Producer(client, **how)
        for start in range(0, count, 10):
            await producer.write(topic, numbered(range(start, min(start + 10, count))))

    cluster.ask(produce)


def plan_of(cluster, **how):
    how = {"client": SMALL, "columns": RECORD_COLUMNS, **how}
    return pickle.loads(pickle.dumps(ReadPlan(cluster.bootstrap_servers, **how)))


def read(cluster, *ranges, **how):
    plan = plan_of(cluster, **how)
    pieces = list(read_ranges(ranges, plan))
    return pa.Table.from_batches(pieces, record_schema(plan.columns))


def offsets(cluster, *ranges, **how):
    return read(cluster, *ranges, **{"columns": ("offset",), **how})["offset"].to_pylist()


def test_a_range_begins_and_ends_within_batches(cluster):
    topic = cluster.topic("sliced")
    write(cluster, topic, 100)
    table = read(cluster, OffsetRange(topic, 0, 13, 77))
    assert table["offset"].to_pylist() == list(range(13, 77))
    assert table["value"].to_pylist() == [b"value %d" % n for n in range(13, 77)]
    assert table["key"].to_pylist() == [b"key %d" % n for n in range(13, 77)]
    assert set(table["topic"].to_pylist()) == {topic}
    assert set(table["partition"].to_pylist()) == {0}
    assert set(table["timestampType"].to_pylist()) == {0}


def test_only_the_columns_asked_for_come_and_in_their_order(cluster):
    topic = cluster.topic("wide")
    headers = (("trace", b"1"), ("empty", None))

    async def produce(client):
        records = [NewRecord(b"v", None, headers), NewRecord(None, b"k")]
        await Producer(client).write(topic, [each._replace(partition=0) for each in records])

    cluster.ask(produce)
    whole = OffsetRange(topic, 0, 0, 2)
    assert read(cluster, whole, columns=("partition", "value")).to_pylist() == [
        {"partition": 0, "value": b"v"},
        {"partition": 0, "value": None},
    ]
    wide = read(cluster, whole, columns=RECORD_COLUMNS_WITH_HEADERS).to_pylist()
    assert [row["headers"] for row in wide] == [
        [{"key": "trace", "value": b"1"}, {"key": "empty", "value": None}],
        None,
    ]


def test_many_ranges_of_many_partitions_come_in_the_order_of_the_task(cluster):
    topic = cluster.topic("several", partitions=6)

    async def produce(client):
        producer = Producer(client)
        for partition in range(6):
            records = [NewRecord(b"%d/%d" % (partition, n)) for n in range(20)]
            await producer.write(topic, [each._replace(partition=partition) for each in records])

    cluster.ask(produce)
    ranges = [OffsetRange(topic, partition, partition, 10) for partition in reversed(range(6))]
    ranges.insert(2, OffsetRange(topic, 3, 10, 10))
    table = read(cluster, *ranges)
    assert table["value"].to_pylist() == [
        b"%d/%d" % (each.partition, n) for each in ranges for n in range(each.start, each.end)
    ]


@pytest.mark.parametrize("codec", CODEC_NAMES, ids=CODEC_NAMES.values())
def test_compressed_batches_are_read(cluster, codec):
    topic = cluster.topic(f"codec-{CODEC_NAMES[codec]}")
    write(cluster, topic, 50, codec=codec)
    table = read(cluster, OffsetRange(topic, 0, 5, 45))
    assert table["value"].to_pylist() == [b"value %d" % n for n in range(5, 45)]


def test_a_batch_that_is_larger_than_an_answer_may_be_comes_whole(cluster):
    topic = cluster.topic("large")
    values = [bytes([n]) * 500_000 for n in range(3)]

    async def produce(client):
        for value in values:
            await Producer(client).write(topic, [NewRecord(value, partition=0)])

    cluster.ask(produce)
    assert read(cluster, OffsetRange(topic, 0, 0, 3))["value"].to_pylist() == values


# ---- transactions ----


def tell_transactions(cluster, topic):
    """0-4 aborted, 5 marker, 6-10 committed, 11 marker, 12-31 aborted in four batches with those
    of another producer between them, 36 marker."""

    async def produce(client):
        writer = TransactionalProducer(client, f"{topic}-writer")
        await writer.init()
        for ending, numbers in ((writer.abort, range(5)), (writer.commit, range(6, 11))):
            await writer.begin()
            await writer.write(topic, numbered(numbers))
            await ending()
        await writer.begin()
        other = Producer(client)
        for start in range(12, 36, 6):
            await writer.write(topic, numbered(range(start, start + 5)))
            await other.write(topic, numbered([start + 5]))
        await writer.abort()

    cluster.ask(produce)


def test_aborted_transactions_are_left_out_across_many_answers(cluster):
    topic = cluster.topic("transactions")
    tell_transactions(cluster, topic)
    seen = [*range(6, 11), 17, 23, 29, 35]
    whole = OffsetRange(topic, 0, 0, 37)
    assert offsets(cluster, whole) == seen
    assert offsets(cluster, whole, client=ClientSettings()) == seen
    markers = {5, 11, 36}
    assert offsets(cluster, whole, committed=False) == [n for n in range(37) if n not in markers]
    for start, end in ((3, 8), (14, 30), (20, 22), (35, 37), (5, 6), (36, 37)):
        wanted = [n for n in seen if start <= n < end]
        assert offsets(cluster, OffsetRange(topic, 0, start, end)) == wanted, (start, end)


def test_a_range_of_an_open_transaction_says_where_readers_end(cluster):
    topic = cluster.topic("open")

    async def produce(client):
        writer = TransactionalProducer(client, "open-writer")
        await writer.init()
        await writer.begin()
        await writer.write(topic, numbered(range(3)))
        return writer

    writer = cluster.ask(produce)
    whole = OffsetRange(topic, 0, 0, 3)
    with pytest.raises(TidelogError, match="open-0 ends at 0 for a reader, and 0 was to be read"):
        offsets(cluster, whole, poll_timeout_ms=300)
    assert offsets(cluster, whole, committed=False) == [0, 1, 2]
    cluster.ask(lambda _: writer.commit())


# ---- what is gone ----


def test_deleted_records_are_a_loss_unless_that_is_fine(cluster, caplog):
    topic = cluster.topic("trimmed")
    write(cluster, topic, 50)
    cluster.ask(lambda client: trim(client, topic, 0, 25))
    lost = "offsets 10 to 39 of trimmed-0 were to be read, and it has 25 to 49 now"
    with pytest.raises(DataLoss, match=re.escape(lost)):
        offsets(cluster, OffsetRange(topic, 0, 10, 40))
    with caplog.at_level(logging.WARNING, "tidelog.spark"):
        left = offsets(cluster, OffsetRange(topic, 0, 10, 40), fail_on_data_loss=False)
        assert left == list(range(25, 40))
        nothing = offsets(cluster, OffsetRange(topic, 0, 5, 10), fail_on_data_loss=False)
        assert nothing == []
        beyond = offsets(cluster, OffsetRange(topic, 0, 60, 70), fail_on_data_loss=False)
        assert beyond == []
    assert lost in caplog.text


def test_a_topic_that_was_deleted_is_a_loss_too(cluster):
    with pytest.raises(DataLoss, match="no-such-topic-0 were to be read, and there is no such"):
        offsets(cluster, OffsetRange("no-such-topic", 0, 0, 10))
    gone = OffsetRange("no-such-topic", 0, 0, 10)
    assert offsets(cluster, gone, fail_on_data_loss=False) == []


def test_nobody_there_is_told_with_the_address_that_was_tried():
    plan = ReadPlan("127.0.0.1:1", ClientSettings(timeout_ms=300), ("offset",))
    with pytest.raises(TidelogError, match=r"127\.0\.0\.1:1 cannot be reached"):
        list(read_ranges([OffsetRange("t", 0, 0, 1)], plan._replace(poll_timeout_ms=300)))


# ---- leaders ----


def test_a_read_goes_on_when_the_leader_is_killed_in_the_middle(cluster):
    topic = cluster.topic("failover", replication_factor=3)
    write(cluster, topic, 200)
    leader = cluster.partition(topic, 0).leader
    pieces = read_ranges([OffsetRange(topic, 0, 0, 200)], plan_of(cluster))
    seen = next(pieces)["offset"].to_pylist()
    cluster.kill(leader)
    try:
        for piece in pieces:
            seen += piece["offset"].to_pylist()
    finally:
        cluster.restart(leader)
    assert seen == list(range(200))


def test_a_task_that_stops_early_leaves_nothing_behind(cluster):
    topic = cluster.topic("left")
    write(cluster, topic, 100)
    plan = plan_of(cluster)
    pieces = read_ranges([OffsetRange(topic, 0, 0, 100)], plan)
    next(pieces)
    pieces.close()
    assert offsets(cluster, OffsetRange(topic, 0, 0, 100)) == list(range(100))


# ---- damage ----


def test_a_batch_with_a_wrong_checksum_is_named_by_its_place():
    good, bad = (bytearray(encode([Record(n, 1, None, b"v")], base_offset=n)) for n in (0, 1))
    bad[-1] ^= 1
    span = Span("orders", 3, 0, 2)
    region = as_region(span, PartitionData(records=good + bad))
    pieces = region_pieces(span, region, ReadPlan("", SMALL, ("offset",)))
    assert next(pieces)["offset"].to_pylist() == [0]
    words = "orders-3 from offset 0: the checksum of the batch at offset 1 is wrong"
    with pytest.raises(TidelogError, match=words):
        next(pieces)
