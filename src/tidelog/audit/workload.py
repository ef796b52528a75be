"""Clients that write down what they did and were told: writers, transactions, readers.

Every value is written once. A writer has one partition and waits for each acknowledgement. A
transaction writes to two partitions and polls in between; every fourth is aborted. Readers read
what is committed, all partitions from the beginning, and choose their positions themselves.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from tidelog.audit.history.recorder import Operation, Recorder
from tidelog.audit.history.rows import FAIL, INFO, OK, POLL
from tidelog.client import Client, ClientError, Consumer, NewRecord, Producer
from tidelog.client.transactional_producer import TransactionalProducer
from tidelog.host.ports import NetworkError

CLIENT_TIMEOUT_MS = 10_000
TRANSACTION_TIMEOUT_MS = 15_000
PAUSE_AFTER_FAILURE_SECONDS = 0.1
ABORT_EVERY, ABORT_AT = 4, 2
LEAST_TRANSACTIONS = 2
"""Of each client, however short the run: one is committed, one aborted."""
PART_RECORDS = 3
"""Records that a transaction writes to one partition."""
SHORT_POLL_MS = 20


class Reached(NamedTuple):
    """Where a cluster is, and how its clients log in."""

    bootstrap: str
    properties: Mapping[str, str] = {}

    def __repr__(self) -> str:
        """Passwords never reach a log."""
        return f"Reached({self.bootstrap})"


class Work(NamedTuple):
    topic: str
    partitions: int = 3
    writers: int = 4
    transactions: int = 2
    """Clients that write in transactions."""
    readers: int = 2
    batch_records: int = 10
    record_bytes: int = 100
    rate: int = 2_000
    """Records per second of all writers together."""


class Ended(NamedTuple):
    """What became of a transaction, and of its producer."""

    outcome: str
    must_begin_anew: bool


class Workload:
    """All clients of a run. Every one has its own connections, as applications do."""

    __slots__ = (
        "_cluster",
        "_ends",
        "_numbers",
        "_reading",
        "_stopping",
        "_work",
        "_writing",
        "recorder",
    )

    def __init__(self, cluster: Reached, work: Work) -> None:
        self._cluster = cluster
        self._work = work
        self._stopping = False
        self._numbers: dict[str, int] = {}
        self._ends: dict[tuple[str, int], int] | None = None
        self._writing: list[asyncio.Task[None]] = []
        self._reading: list[asyncio.Task[None]] = []
        self.recorder = Recorder()

    def start(self) -> None:
        work = self._work
        self._writing = [
            *(self._task(f"writer-{index}", self._write, index) for index in range(work.writers)),
            *(
                self._task(f"transactions-{index}", self._transact, index)
                for index in range(work.transactions)
            ),
        ]
        self._reading = [
            self._task(f"reader-{index}", self._read, index) for index in range(work.readers)
        ]

    def check(self) -> None:
        """Raises what ended a client too early."""
        for task in (*self._writing, *self._reading):
            if task.done():
                task.result()

    async def stop_writing(self) -> None:
        """Every writer ends after what it waits for; no transaction is left open."""
        self._stopping = True
        await asyncio.gather(*self._writing)

    async def read_until(self, ends: dict[tuple[str, int], int]) -> None:
        """Until every reader has come so far."""
        self._ends = ends
        await asyncio.gather(*self._reading)

    async def cancel(self) -> None:
        tasks = (*self._writing, *self._reading)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _task(
        self, name: str, run: Callable[[Client, str, int], Awaitable[None]], index: int
    ) -> asyncio.Task[None]:
        async def live() -> None:
            async with Client(
                self._cluster.bootstrap,
                client_id=name,
                timeout_ms=CLIENT_TIMEOUT_MS,
                properties=self._cluster.properties,
            ) as client:
                await run(client, name, index)

        return asyncio.create_task(live(), name=name)

    # ---- one write after the other ----

    async def _write(self, client: Client, name: str, index: int) -> None:
        work = self._work
        partition = index % work.partitions
        producer = Producer(client)
        loop = asyncio.get_running_loop()
        pause = work.batch_records * work.writers / work.rate
        due = loop.time()
        while not self._stopping:
            if not await self._write_batch(producer, name, partition):
                producer = Producer(client)  # the numbers of the old one have a hole now
                await asyncio.sleep(PAUSE_AFTER_FAILURE_SECONDS)
            due = max(due + pause, loop.time() - pause)  # what an outage cost is not made up for
            await asyncio.sleep(max(0.0, due - loop.time()))

    async def _write_batch(self, producer: Producer, name: str, partition: int) -> bool:
        """False if nobody knows what became of it."""
        records = self._records(name, partition, self._work.batch_records)
        operation = self.recorder.begin(name)
        base_offset: int | None = None
        try:
            (written,) = await producer.write(self._work.topic, records)
            base_offset = written.base_offset
        except (ClientError, NetworkError):
            pass
        self._note_sent(operation, partition, records, base_offset)
        operation.end(INFO if base_offset is None else OK)
        return base_offset is not None

    # ---- all or nothing ----

    async def _transact(self, client: Client, name: str, index: int) -> None:
        work = self._work
        home = index % work.partitions
        producer = await self._new_producer(client, name)
        consumer = Consumer(client, {(work.topic, home): 0}, committed=True)
        self.recorder.assigned(name)
        count = 0
        while not self._stopping or count < LEAST_TRANSACTIONS:
            count += 1
            operation = self.recorder.begin(name, transaction=name)
            ended = await self._transaction(producer, consumer, operation, name, home)
            operation.end(ended.outcome)
            if ended.must_begin_anew:
                await asyncio.sleep(PAUSE_AFTER_FAILURE_SECONDS)
                producer = await self._new_producer(client, name)
        await self._new_producer(client, name)  # aborts what is still open

    async def _new_producer(self, client: Client, name: str) -> TransactionalProducer:
        """Whatever an earlier one left open is decided when this returns."""
        while True:
            producer = TransactionalProducer(client, name, timeout_ms=TRANSACTION_TIMEOUT_MS)
            try:
                await producer.init()
            except (ClientError, NetworkError):
                await asyncio.sleep(PAUSE_AFTER_FAILURE_SECONDS)
            else:
                return producer

    async def _transaction(
        self,
        producer: TransactionalProducer,
        consumer: Consumer,
        operation: Operation,
        name: str,
        home: int,
    ) -> Ended:
        """Without the question to commit it can only be aborted, whatever else goes wrong."""
        try:
            await producer.begin()
            await self._write_part(producer, operation, name, home)
            for fetched in (await consumer.read(max_wait_ms=SHORT_POLL_MS)).values():
                operation.polled(fetched)
            other = (home + 1) % self._work.partitions
            await self._write_part(producer, operation, name, other)
            if self._numbers[name] // (2 * PART_RECORDS) % ABORT_EVERY == ABORT_AT:
                await producer.abort()
                return Ended(FAIL, must_begin_anew=False)
        except (ClientError, NetworkError):
            return Ended(FAIL, must_begin_anew=True)
        try:
            await producer.commit()
        except (ClientError, NetworkError):
            return Ended(INFO, must_begin_anew=True)
        return Ended(OK, must_begin_anew=False)

    async def _write_part(
        self, producer: TransactionalProducer, operation: Operation, name: str, partition: int
    ) -> None:
        records = self._records(name, partition, PART_RECORDS)
        base_offset: int | None = None
        try:
            (written,) = await producer.write(self._work.topic, records)
            base_offset = written.base_offset
        finally:
            self._note_sent(operation, partition, records, base_offset)

    # ---- reading ----

    async def _read(self, client: Client, name: str, _: int) -> None:
        work = self._work
        positions = {(work.topic, partition): 0 for partition in range(work.partitions)}
        consumer = Consumer(client, positions, committed=True)
        self.recorder.assigned(name)
        while not self._is_at_end(consumer):
            operation = self.recorder.begin(name)
            try:
                answers = await consumer.read()
            except (ClientError, NetworkError):
                operation.end_with(POLL, FAIL)
                await asyncio.sleep(PAUSE_AFTER_FAILURE_SECONDS)
                continue
            for fetched in answers.values():
                operation.polled(fetched)
            operation.end(OK)

    def _is_at_end(self, consumer: Consumer) -> bool:
        ends = self._ends
        return ends is not None and all(
            consumer.positions[where] >= end for where, end in ends.items()
        )

    # ---- values ----

    def _records(self, name: str, partition: int, count: int) -> list[NewRecord]:
        first = self._numbers.get(name, 0)
        self._numbers[name] = first + count
        size = self._work.record_bytes
        return [
            NewRecord(
                f"{name}:{number}:".ljust(size, ".").encode(),
                key=name.encode(),
                partition=partition,
            )
            for number in range(first, first + count)
        ]

    def _note_sent(
        self,
        operation: Operation,
        partition: int,
        records: list[NewRecord],
        base_offset: int | None,
    ) -> None:
        for place, record in enumerate(records):
            operation.sent(
                self._work.topic,
                partition,
                record.value or b"",
                key=record.key,
                offset=None if base_offset is None else base_offset + place,
            )
