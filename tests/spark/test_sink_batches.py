"""Prepared batches on their way into partitions: in order, several at once, past dying leaders."""

import asyncio
import struct
import threading

import confluent_kafka
import pytest

from support.sink_bench import committed
from tidelog.client import Client, KafkaError
from tidelog.client.batch_producer import BatchProducer
from tidelog.client.transactional_producer import TransactionalProducer
from tidelog.core.errors import Error
from tidelog.wire.records import CorruptBatch, Record, encode


def batches(count, *, size=200, first=0):
    """So many batches of ten records; each record says its number."""
    for number in range(first, first + count):
        yield encode(
            [
                Record(offset, 0, None, struct.pack(">I", 10 * number + offset) + bytes(size), ())
                for offset in range(10)
            ]
        )


def in_log(cluster, topic):
    """Numbers as they lie in the log of each partition."""
    return [struct.unpack(">I", value[:4])[0] for value in committed(cluster, topic, sort=False)]


def write(cluster, story):
    async def told():
        async with Client(cluster.bootstrap_servers, timeout_ms=20_000) as client:
            return await story(client)

    return asyncio.run(told())


def test_batches_keep_their_order_though_the_leader_dies_among_them(cluster):
    topic = cluster.topic("batches-ordered", partitions=1)
    leader = cluster.partition(topic, 0).leader
    killer = threading.Thread(target=cluster.kill, args=(leader,))

    def feed():
        for number, batch in enumerate(batches(60)):
            if number == 20:
                killer.start()  # while five of them are on their way
            yield batch

    async def story(client):
        return await BatchProducer(client).write_batches({(topic, 0): feed()})

    try:
        (written,) = write(cluster, story)
    finally:
        killer.join()
        cluster.restart(leader)
        cluster.wait_ready()
    assert (written.base_offset, written.records) == (0, 600)
    assert in_log(cluster, topic) == list(range(600))


def test_many_partitions_are_written_at_once_and_go_on_where_they_were(cluster):
    topic = cluster.topic("batches-many", partitions=20)

    async def story(client):
        producer = BatchProducer(client)
        for first in (0, 8):
            feeds = {(topic, index): batches(8, first=first) for index in range(20)}
            written = await producer.write_batches(feeds)
            assert sum(each.records for each in written) == 20 * 80
        return await producer.write_batches({})

    assert write(cluster, story) == []
    assert sorted(in_log(cluster, topic)) == sorted(list(range(160)) * 20)


def test_a_refusal_stops_everything_and_is_the_answer(cluster):
    topic = cluster.topic("batches-refused", partitions=2)

    async def story(client):
        producer = TransactionalProducer(client, "refused")
        await producer.begin()
        too_large = encode([Record(0, 0, None, bytes(2_000_000), ())])
        with pytest.raises(KafkaError) as caught:
            await producer.write_batches({(topic, 0): batches(500), (topic, 1): [too_large]})
        assert caught.value.error == Error.MESSAGE_TOO_LARGE
        await producer.abort()
        await producer.begin()
        await producer.write_batches({(topic, 0): batches(1)})
        await producer.commit()

    write(cluster, story)
    cluster.wait(lambda: in_log(cluster, topic) == list(range(10)))


def test_bytes_that_went_bad_are_not_blessed_with_a_new_checksum(cluster):
    topic = cluster.topic("batches-bad", partitions=1)
    (bad,) = batches(1)
    bad[-1] ^= 1

    async def story(client):
        with pytest.raises(CorruptBatch):
            await BatchProducer(client).write_batches({(topic, 0): [bad]})

    write(cluster, story)


def test_a_cluster_without_transactions_of_version_2_is_told_before_anything_is_written():
    holder = confluent_kafka.Producer(
        {"test.mock.num.brokers": 1, "bootstrap.servers": "", "log_level": 0}
    )
    brokers = holder.list_topics(timeout=10).brokers.values()

    async def story():
        bootstrap = ",".join(f"{each.host}:{each.port}" for each in brokers)
        async with Client(bootstrap, timeout_ms=10_000) as client:
            feeds = {("theirs", 0): batches(10)}
            await client.topic("theirs", create=True)
            (written,) = await BatchProducer(client).write_batches(feeds)
            assert written.records == 100
            with pytest.raises(KafkaError, match="no transactions of version 2"):
                await TransactionalProducer(client, "old").begin()

    asyncio.run(story())
