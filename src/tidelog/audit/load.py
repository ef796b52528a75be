"""Writers that wait for each acknowledgement before they go on, and note when it came."""

import asyncio
import time
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from tidelog.audit.ledger import Ledger, value_of
from tidelog.client import Client, ClientError, NewRecord, Producer
from tidelog.host.ports import NetworkError

PAUSE_AFTER_FAILURE_SECONDS = 0.1


class Ack(NamedTuple):
    """One batch that was acknowledged, in seconds of `time.monotonic`."""

    partition: int
    sent: float
    answered: float


class Work(NamedTuple):
    topic: str
    partitions: int
    writers: int
    batch_records: int
    record_bytes: int


class Load:
    """acks=all, idempotent: a batch is asked again until it is acknowledged. Every writer has its
    own connections, as applications do, and one partition."""

    __slots__ = (
        "_bootstrap",
        "_moved",
        "_stopping",
        "_tasks",
        "_work",
        "acks",
        "failures",
        "ledger",
    )

    def __init__(self, bootstrap: str, work: Work) -> None:
        self._bootstrap = bootstrap
        self._work = work
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self._moved = asyncio.Condition()
        self.ledger = Ledger()
        self.acks: list[Ack] = []
        self.failures: list[str] = []
        """Batches that were given up: their records are in doubt."""

    def start(self) -> None:
        for writer in range(self._work.writers):
            self._tasks.append(asyncio.ensure_future(self._write(writer)))

    async def reach(self, acknowledged: int, stall_ms: int) -> None:
        """Until so many records are acknowledged; TimeoutError if for so long none is."""
        while self.ledger.acknowledged < acknowledged:
            before = self.ledger.acknowledged
            async with asyncio.timeout(stall_ms / 1000), self._moved:
                await self._moved.wait_for(partial(self._is_beyond, before))
            for task in self._tasks:
                if task.done():
                    task.result()

    async def finish(self) -> None:
        """Every writer ends after the batch it waits for."""
        self._stopping = True
        await asyncio.gather(*self._tasks)

    async def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _is_beyond(self, acknowledged: int) -> bool:
        return self.ledger.acknowledged > acknowledged or any(task.done() for task in self._tasks)

    async def _write(self, writer: int) -> None:
        async with Client(self._bootstrap, client_id=f"audit-{writer}") as client:
            producer = Producer(client)
            while not self._stopping:
                try:
                    await self._write_batch(producer, writer)
                except (ClientError, NetworkError) as error:
                    self.failures.append(f"writer {writer}: {error}")
                    producer = Producer(client)  # the numbers of the old one have a hole now
                    await asyncio.sleep(PAUSE_AFTER_FAILURE_SECONDS)
                async with self._moved:
                    self._moved.notify_all()

    async def _write_batch(self, producer: Producer, writer: int) -> None:
        work = self._work
        partition = writer % work.partitions
        numbers = self.ledger.next_numbers(writer, work.batch_records)
        records = [
            NewRecord(value_of(writer, number, work.record_bytes), partition=partition)
            for number in numbers
        ]
        sent = time.monotonic()
        (written,) = await producer.write(work.topic, records)
        self.acks.append(Ack(partition, sent, time.monotonic()))
        self.ledger.acknowledge(writer, numbers, partition, written.base_offset)


def longest_silence_ms(acks: list[Ack], begin: float, end: float) -> float:
    """The longest time that one partition acknowledged nothing, of those that overlap a span."""
    longest = 0.0
    for partition in {ack.partition for ack in acks}:
        times = sorted(ack.answered for ack in acks if ack.partition == partition)
        for before, after in pairwise(times):
            if after >= begin and before <= end:
                longest = max(longest, after - before)
    return longest * 1000


def quantile_ms(acks: list[Ack], share: float) -> float:
    """How long an acknowledgement took."""
    times = sorted(ack.answered - ack.sent for ack in acks)
    return times[min(len(times) - 1, int(len(times) * share))] * 1000 if times else 0.0
