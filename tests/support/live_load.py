"""Load on a real cluster through several client libraries, and the verdict afterwards."""

import asyncio
import contextlib
import time

import aiokafka
import confluent_kafka

from tidelog.audit import replica_logs
from tidelog.audit.delivery import judge
from tidelog.bench.load import FAST, Ack, LibrdkafkaLoad, Load, number_in, value_of

RATE = 300
WITHIN_S = 60


class AiokafkaLoad(Load):
    """Pure Python; one record after the other, several on their way."""

    def _run(self):
        asyncio.run(self._write())

    async def _write(self):
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=self.bootstrap_servers, enable_idempotence=True, acks="all",
            retry_backoff_ms=20, request_timeout_ms=WITHIN_S * 1000,
        )  # fmt: skip
        await producer.start()
        begin, number = time.monotonic(), 0
        try:
            while not self._stopping.is_set():
                while number < self._due(begin):
                    sent = await producer.send(self.topic, value_of(number), partition=0)
                    sent.add_done_callback(lambda done, number=number: self._heard(number, done))
                    number += 1
                await asyncio.sleep(0.002)
            await producer.flush()
        finally:
            await producer.stop()

    def _heard(self, number, done):
        if done.cancelled() or done.exception() is not None:
            self.failures.append(f"record {number}: {done}")
        else:
            self.acks.append(Ack(done.result().offset, number, time.monotonic()))


def librdkafka_load(cluster, topic):
    return LibrdkafkaLoad(cluster.bootstrap_servers, topic, RATE, FAST)


def aiokafka_load(cluster, topic):
    return AiokafkaLoad(cluster.bootstrap_servers, topic, RATE)


@contextlib.contextmanager
def running(cluster, *loads):
    """They write while the block runs; each has been acknowledged something before it begins."""
    for load in loads:
        load.start()
    try:
        for load in loads:
            wait_for_progress(cluster, load)
        yield
    finally:
        for load in loads:
            load.stop()


def wait_for_progress(cluster, load, more=20):
    """Until so many more records are acknowledged."""
    before = len(load.acks)
    cluster.wait(lambda: load.failures or len(load.acks) >= before + more, WITHIN_S)
    assert not load.failures, load.failures[:3]


def wait_in_sync(cluster, *topics):
    def is_so():
        found = [cluster.partition(topic, 0) for topic in topics]
        return all(sorted(each.isr) == sorted(each.replicas) for each in found)

    cluster.wait(is_so, WITHIN_S)


def read_all(cluster, topic):
    """(offset, number) of every record, and the high watermark; through librdkafka."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "audit",
            "enable.auto.commit": False,
        }
    )
    try:
        place = confluent_kafka.TopicPartition(topic, 0, 0)
        _, high_watermark = consumer.get_watermark_offsets(place, timeout=WITHIN_S)
        consumer.assign([place])
        read, deadline = [], time.monotonic() + WITHIN_S
        while len(read) == 0 or read[-1][0] + 1 < high_watermark:
            assert time.monotonic() < deadline, f"{len(read)} records of {high_watermark}"
            for message in consumer.consume(1_000, timeout=1):
                assert message.error() is None, message.error()
                read.append((message.offset(), number_in(message.value())))
        return read, high_watermark
    finally:
        consumer.close()


def assert_kept(cluster, load):
    """Nothing failed; what was acknowledged is there once, in order, the same on all replicas."""
    assert not load.failures, load.failures[:3]
    read, high_watermark = read_all(cluster, load.topic)
    verdict = judge([(ack.offset, ack.number) for ack in load.acks], read)
    assert verdict.is_clean, verdict
    directories = {node: cluster.data_dir(node) for node in cluster.brokers}

    def compared():
        return replica_logs.compare(directories, f"{load.topic}-0", high_watermark)

    cluster.wait(lambda: compared().verdict != replica_logs.LAGGING, WITHIN_S)
    assert compared().verdict == replica_logs.IDENTICAL, compared()
