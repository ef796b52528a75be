"""A steady stream of numbered records with acks=all, and when each of them was acknowledged."""

import asyncio
import importlib
import importlib.util
import threading
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from tidelog.client import Client, ClientError, NewRecord, Producer

LIBRDKAFKA, OWN = "librdkafka", "tidelog"
RECORD_BYTES = 100
POLL_SECONDS = 0.001
FLUSH_SECONDS = 60
DELIVERY_MS = 120_000

DEFAULTS: Mapping[str, object] = {"acks": "all", "enable.idempotence": True}
FAST: Mapping[str, object] = {
    **DEFAULTS,
    "linger.ms": 1,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 20,
    "topic.metadata.refresh.fast.interval.ms": 50,
}
"""What an application sets that wants to be back soon. The one that counts is the longest pause
between two tries to connect: by default it grows to 10 s for a broker that was down, and it is
waited for even when that broker is back and leads."""


class Ack(NamedTuple):
    offset: int
    number: int
    at: float
    """Monotonic seconds."""


class Load:
    """One thread that writes; the lists are only appended to."""

    def __init__(self, bootstrap_servers: str, topic: str, rate: int) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.topic = topic
        self.rate = rate
        self.acks: list[Ack] = []
        self.failures: list[str] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Send nothing more, and wait for the fate of what was sent."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        raise NotImplementedError

    def _due(self, begin: float) -> int:
        """How many records should have been sent by now."""
        return int((time.monotonic() - begin) * self.rate)


class LibrdkafkaLoad(Load):
    """Through the C library that most clients are built on."""

    def __init__(
        self, bootstrap_servers: str, topic: str, rate: int, settings: Mapping[str, object]
    ) -> None:
        super().__init__(bootstrap_servers, topic, rate)
        self._settings = settings

    def _run(self) -> None:
        library: Any = importlib.import_module("confluent_kafka")
        quiet = {"log_level": 0, "bootstrap.servers": self.bootstrap_servers}
        producer = library.Producer({**quiet, **self._settings})
        begin, number = time.monotonic(), 0
        while not self._stopping.is_set():
            while number < self._due(begin):
                heard = partial(self._on_delivery, number)
                try:
                    producer.produce(self.topic, value_of(number), partition=0, on_delivery=heard)
                except BufferError:
                    break  # a long outage: it goes on when the queue has room
                number += 1
            producer.poll(POLL_SECONDS)
        left = producer.flush(FLUSH_SECONDS)
        if left:
            self.failures.append(f"{left} records without an answer after {FLUSH_SECONDS} s")

    def _on_delivery(self, number: int, error: object, message: Any) -> None:
        if error is not None:
            self.failures.append(f"record {number}: {error}")
        else:
            self.acks.append(Ack(message.offset(), number, time.monotonic()))


class OwnLoad(Load):
    """Through the client of our own tools, one batch after the other."""

    def _run(self) -> None:
        asyncio.run(self._write())

    async def _write(self) -> None:
        begin, number = time.monotonic(), 0
        async with Client(self.bootstrap_servers, timeout_ms=DELIVERY_MS) as client:
            producer = Producer(client)
            while not self._stopping.is_set():
                numbers = range(number, self._due(begin))
                if not numbers:
                    await asyncio.sleep(POLL_SECONDS)
                    continue
                records = [NewRecord(value_of(each), partition=0) for each in numbers]
                try:
                    (written,) = await producer.write(self.topic, records)
                except ClientError as error:
                    self.failures.append(f"record {number}: {error}")
                    return
                now = time.monotonic()
                for index, each in enumerate(numbers):
                    self.acks.append(Ack(written.base_offset + index, each, now))
                number = numbers.stop


def value_of(number: int) -> bytes:
    return b"%d" % number + b" " * (RECORD_BYTES - len(b"%d" % number))


def number_in(value: bytes | memoryview | None) -> int:
    return int(bytes(value or b"-1"))


def best_client() -> str:
    """librdkafka when it is installed."""
    return LIBRDKAFKA if importlib.util.find_spec("confluent_kafka") is not None else OWN
