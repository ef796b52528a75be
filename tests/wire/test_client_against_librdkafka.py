"""Our client against brokers that we did not write: librdkafka's mock cluster."""

import asyncio

import confluent_kafka
import pytest

from tidelog.client import (
    Admin,
    Client,
    ClusterUnreachable,
    Consumer,
    KafkaError,
    NewRecord,
    NewTopic,
    Producer,
)
from tidelog.client.offsets import EARLIEST, LATEST, find_offset
from tidelog.core.errors import Error


@pytest.fixture(scope="module")
def mock():
    """Three brokers inside a producer of theirs, which lives as long as they shall."""
    holder = confluent_kafka.Producer(
        {"test.mock.num.brokers": 3, "bootstrap.servers": "", "log_level": 0}
    )
    brokers = holder.list_topics(timeout=10).brokers.values()
    return holder, ",".join(f"{each.host}:{each.port}" for each in brokers)


def tell(bootstrap, story):
    async def told():
        async with Client(bootstrap, timeout_ms=10_000) as client:
            return await story(client)

    return asyncio.run(told())


async def everything(client, topic):
    partitions = (await client.topic(topic)).partitions
    consumer = Consumer(client, {(topic, each.partition): 0 for each in partitions})
    ends = {
        (topic, each.partition): (await find_offset(client, topic, each.partition, LATEST)).offset
        for each in partitions
    }
    reads = []
    while any(consumer.positions[where] < end for where, end in ends.items()):
        for fetched in (await consumer.read()).values():
            reads += fetched.reads
    return reads


@pytest.mark.parametrize("acks", [-1, 1])
def test_what_is_written_is_read_back_whole(mock, acks):
    records = [NewRecord(b"v%d" % n, b"k%d" % n, (("h", b"x"),), 1_000 + n) for n in range(50)]

    async def story(client):
        topic = f"round-trip-{acks}".replace("--", "-")
        written = await Producer(client, acks=acks).write(topic, records)
        assert sum(each.records for each in written) == 50
        return await everything(client, topic)

    found = {each.record.key: each.record for each in tell(mock[1], story)}
    assert len(found) == 50
    for record in records:
        read = found[record.key]
        assert (read.value, read.headers, read.timestamp) == (
            record.value,
            record.headers,
            record.timestamp_ms,
        )


def test_keys_go_where_librdkafka_sends_them(mock):
    _, bootstrap = mock
    keys = [b"key-%d" % number for number in range(40)]
    theirs = {}

    def delivered(error, message):
        assert error is None
        theirs[message.key()] = message.partition()

    # Its own default is another hash; this one is Java's.
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "log_level": 0}
    )
    for key in keys:
        producer.produce("keys-theirs", b"", key, on_delivery=delivered)
    assert producer.flush(20) == 0

    async def story(client):
        await Producer(client).write("keys-ours", [NewRecord(b"", key) for key in keys])
        return {each.record.key: each.partition for each in await everything(client, "keys-ours")}

    assert tell(bootstrap, story) == theirs


def test_a_record_that_nobody_answers_for_arrives_all_the_same(mock):
    async def story(client):
        await Producer(client, acks=0).write("silent", [NewRecord(b"zero", partition=0)])
        return (await anext(aiter(Consumer(client, {("silent", 0): 0})))).record.value

    assert tell(mock[1], story) == b"zero"


def test_the_first_offset_and_the_end_are_found(mock):
    async def story(client):
        await Producer(client).write("ends", [NewRecord(b"x", partition=1)] * 3)
        first = await find_offset(client, "ends", 1, EARLIEST)
        end = await find_offset(client, "ends", 1, LATEST)
        return first.offset, end.offset

    assert tell(mock[1], story) == (0, 3)


def test_refusals_have_kafkas_names(mock):
    async def story(client):
        with pytest.raises(KafkaError) as unknown:
            await client.topic("nowhere")
        with pytest.raises(KafkaError, match="does not offer it") as unsupported:
            await Admin(client).create_topic(NewTopic("x", 1, 1))
        return unknown.value.error, unsupported.value.error

    assert tell(mock[1], story) == (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.UNSUPPORTED_VERSION)


def test_silence_ends_at_the_deadline():
    async def story():
        async with Client("127.0.0.1:1", timeout_ms=50) as client:
            await client.view()

    with pytest.raises(ClusterUnreachable, match=r"127\.0\.0\.1:1"):
        asyncio.run(story())
