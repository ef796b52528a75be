"""What the sections write with librdkafka: one record at a time, or as much as goes."""

import time
from collections.abc import Mapping
from typing import Any

from tidelog.bench.compare.system import SystemFailed
from tidelog.bench.compare.topics import library

ANSWER_WITHIN_S = 150.0
"""Thousands of new partitions may have to be made before they take a record."""
BATCH_BYTES = 1_000_000
FILL: Mapping[str, object] = {
    "acks": "all",
    "linger.ms": 20,
    "batch.size": BATCH_BYTES,
    "batch.num.messages": 100_000,
    "queue.buffering.max.kbytes": 64 * 1024,
    "message.max.bytes": 2 * BATCH_BYTES,
}
"""For filling a log soon; what is measured comes afterwards."""
ONE_BY_ONE: Mapping[str, object] = {"acks": "all", "linger.ms": 0}


class Writer:
    """A producer that counts what was acknowledged and remembers the first error."""

    __slots__ = ("_producer", "acknowledged", "error")

    def __init__(self, bootstrap_servers: str, settings: Mapping[str, object]) -> None:
        given = {"bootstrap.servers": bootstrap_servers, "log_level": 0, **settings}
        self._producer: Any = library().Producer(given)
        self.acknowledged = 0
        self.error: object = None

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        """Waits while the queue is full."""
        while True:
            try:
                self._producer.produce(topic, value, partition=partition, on_delivery=self._heard)
            except BufferError:
                self._producer.poll(0.05)
                continue
            self._producer.poll(0)
            return

    def finish(self, within_s: float = ANSWER_WITHIN_S) -> None:
        """Until everything is acknowledged; SystemFailed if something is not."""
        left = self._producer.flush(within_s)
        if self.error is not None:
            raise SystemFailed(f"a record was not taken: {self.error}")
        if left:
            raise SystemFailed(f"{left} records without an answer after {within_s:g} s")

    def _heard(self, error: object, _message: object) -> None:
        if error is None:
            self.acknowledged += 1
        elif self.error is None:
            self.error = error


def write_one(bootstrap_servers: str, topic: str) -> None:
    """Returns when one record is acknowledged by all."""
    writer = Writer(bootstrap_servers, ONE_BY_ONE)
    writer.send(topic, b"x" * 100)
    writer.finish()


def latencies_ms(bootstrap_servers: str, topic: str, count: int) -> list[float]:
    """From handing over a record to its acknowledgement, one record after the other, in order."""
    writer = Writer(bootstrap_servers, ONE_BY_ONE)
    value = b"x" * 100
    for _ in range(max(10, count // 10)):  # connections and caches are not what is asked for
        writer.send(topic, value)
        writer.finish()
    found = []
    for _ in range(count):
        begin = time.perf_counter()
        writer.send(topic, value)
        writer.finish()
        found.append((time.perf_counter() - begin) * 1000)
    return sorted(found)


def write_bytes(
    bootstrap_servers: str, topic: str, partitions: int, *, total_bytes: int, record_bytes: int
) -> int:
    """So many bytes of records, spread evenly over the partitions; how many records."""
    writer = Writer(bootstrap_servers, FILL)
    value = b"x" * record_bytes
    count = max(partitions, total_bytes // record_bytes)
    for number in range(count):
        writer.send(topic, value, number % partitions)
    writer.finish()
    return count
