"""A process that writes at a steady rate and reads what it wrote (see client_process).

Writer and reader share one clock. A record carries the moment at which it was due, not the one at
which it was sent: a system that holds the writer up must not look better for it.
"""

import struct
import threading
import time
from typing import Any

from tidelog.bench.compare.client_process import Job, answer
from tidelog.bench.compare.topics import library

NS = 1_000_000_000
POLL_S = 0.05
DRAIN_S = 30.0
POLL_EVERY = 64
MAX_SLEEP_S = 0.01
MAX_IN_FLIGHT = 20_000
"""Of the writer that is not paced: enough to keep the brokers busy."""
_DUE = struct.Struct(">q")


class Incomplete(Exception):  # noqa: N818 - it names what is so
    """Records are missing."""


class Reader:
    """One thread that reads; the list is only appended to, by it alone."""

    __slots__ = ("_consumer", "_stopping", "_thread", "failures", "latencies_ns")

    def __init__(self, job: Job) -> None:
        self.latencies_ns: list[tuple[int, int]] = []
        """When it was due, and how long it took."""
        self.failures: list[str] = []
        settings = {"group.id": "bench", "enable.auto.commit": False, "log_level": 0}
        self._consumer = library().Consumer(
            {**settings, **job["settings"], "bootstrap.servers": job["bootstrap_servers"]}
        )
        partition = library().TopicPartition
        self._consumer.assign([partition(job["topic"], n, 0) for n in range(job["partitions"])])
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)
        self._thread.start()

    def wait(self, records: int) -> None:
        """Until so many have been read."""
        deadline = time.monotonic() + DRAIN_S
        while len(self.latencies_ns) < records and not self.failures:
            if time.monotonic() >= deadline:
                break
            time.sleep(0.01)
        read = len(self.latencies_ns)
        if read != records:
            raise Incomplete(f"{records} records written, {read} read {self.failures[:1]}")

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        poll, clock, keep = self._consumer.poll, time.monotonic_ns, self.latencies_ns.append
        while not self._stopping.is_set():
            message = poll(POLL_S)
            now = clock()
            if message is None:
                continue
            if message.error() is not None:
                self.failures.append(str(message.error()))
                return
            (due,) = _DUE.unpack_from(message.value())
            keep((due, now - due))


class Writer:
    """Sends records in this thread, each with the moment at which it was due."""

    __slots__ = ("_filling", "_producer", "_topic", "failures", "sent")

    def __init__(self, job: Job) -> None:
        self.sent = 0
        self.failures: list[str] = []
        settings = {
            **job["settings"],
            "bootstrap.servers": job["bootstrap_servers"],
            "acks": "all",
            "linger.ms": job["linger_ms"],
            "log_level": 0,
            "delivery.report.only.error": True,
            "on_delivery": self._heard,
        }
        self._producer: Any = library().Producer(settings)
        self._topic = job["topic"]
        self._filling = b"x" * (job["record_bytes"] - _DUE.size)
        self._producer.list_topics(self._topic, timeout=DRAIN_S)

    def probe(self, reader: Reader, partitions: int) -> None:
        """One record to each partition, and until it is read. A consumer that has just been
        assigned may take seconds to its first fetch, and that is not how late a record is."""
        for partition in range(partitions):
            value = _DUE.pack(time.monotonic_ns()) + self._filling
            self._producer.produce(self._topic, value, partition=partition)
        self.flush()
        reader.wait(partitions)
        reader.latencies_ns.clear()

    def write_at(self, rate: float, seconds: float) -> int:
        """The moment of the first record, on the clock of the reader."""
        begin, total = time.monotonic_ns(), int(rate * seconds)
        interval_ns = NS / rate
        while self.sent < total:
            ahead_ns = begin + int(self.sent * interval_ns) - time.monotonic_ns()
            if ahead_ns > 0:
                time.sleep(min(MAX_SLEEP_S, ahead_ns / NS))
                continue
            self._send(begin + int(self.sent * interval_ns))
        return begin

    def write_all(self, reader: Reader, seconds: float) -> float:
        """As fast as they are read; how many in a second."""
        begin = time.monotonic()
        while time.monotonic() < begin + seconds:
            if self.sent - len(reader.latencies_ns) >= MAX_IN_FLIGHT:
                time.sleep(0.0005)
                continue
            for _ in range(POLL_EVERY):
                self._send(time.monotonic_ns())
        self.flush()
        reader.wait(self.sent)
        return self.sent / (time.monotonic() - begin)

    def flush(self) -> None:
        left = self._producer.flush(DRAIN_S)
        if left or self.failures:
            raise Incomplete(f"{left} records without an answer {self.failures[:1]}")

    def _send(self, due_ns: int) -> None:
        try:
            self._producer.produce(self._topic, _DUE.pack(due_ns) + self._filling)
        except BufferError:
            raise Incomplete("the brokers are slower than the rate: the queue is full") from None
        self.sent += 1
        if self.sent % POLL_EVERY == 0:
            self._producer.poll(0)

    def _heard(self, error: object, _: object) -> None:
        if error is not None:
            self.failures.append(str(error))


def measure(job: Job) -> Job:
    """At a rate: percentiles in milliseconds. Without one: how many records in a second."""
    reader, writer = Reader(job), Writer(job)
    writer.probe(reader, job["partitions"])
    if job["rate"] is None:
        writer.write_all(reader, job["warm_up_s"])
        sent, writer.sent = writer.sent, 0
        reader.latencies_ns.clear()
        assert sent, "the warm-up is too short to send anything"
        per_second = writer.write_all(reader, job["seconds"])
        reader.stop()
        return {"per_second": per_second}
    begin = writer.write_at(job["rate"], job["warm_up_s"] + job["seconds"])
    writer.flush()
    reader.wait(writer.sent)
    reader.stop()
    counted_from = begin + int(job["warm_up_s"] * NS)
    return percentiles_ms([taken for due, taken in reader.latencies_ns if due >= counted_from])


def percentiles_ms(latencies_ns: list[int]) -> Job:
    """The smallest value that at least this share of them does not exceed."""
    ordered = sorted(latencies_ns)
    count = len(ordered)
    shares = {"p50": 500, "p99": 990, "p999": 999}
    places = {name: max(0, -(-count * share // 1000) - 1) for name, share in shares.items()}
    return {name: ordered[place] / 1e6 for name, place in places.items()}


if __name__ == "__main__":
    answer(measure)
