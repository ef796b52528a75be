"""Programs that read `inputs` and write `outputs`, with their offsets in the same transaction."""

import asyncio
from random import Random
from typing import Final

from tidelog.client import NewRecord
from tidelog.client.consumer import Consumer, Fetched
from tidelog.client.groups import GroupAdmin
from tidelog.client.transactional_producer import TransactionalProducer
from tidelog.sim.nodes.client_plan import OWN_ASSIGNMENT, ProcessorPlan
from tidelog.sim.nodes.clients.history import (
    ABORTED,
    ASKED,
    COMMITTED,
    GroupLog,
    Sent,
    TopicPartition,
    Transaction,
)
from tidelog.sim.nodes.clients.members import Membership, Progress, join_group
from tidelog.sim.nodes.clients.process import ClientProcess
from tidelog.sim.nodes.clients.stage import FAILURES, INPUTS, OUTPUTS, PAUSE_AFTER_FAILURE_S, Stage

MISCHIEF: Final = ("abort", "vanish", "stand_still", "lose_connections", "successor")
READ_WAIT_MS: Final = 200
PAUSE_BETWEEN_READS_S: Final = 0.05


class Alone:
    """A reader of all partitions who knows of no other. What it has read is committed under the
    name of a group that nobody is a member of; its transactional id keeps others away."""

    __slots__ = ("_client", "_consumer", "_partitions", "_progress")

    def __init__(self, process: ClientProcess, partitions: int, progress: Progress) -> None:
        self._client = process.client
        self._partitions = partitions
        self._progress = progress
        self._consumer = Consumer(process.client, {})

    @property
    def generation(self) -> int:
        return -1

    @property
    def member_id(self) -> str:
        return ""

    @property
    def positions(self) -> dict[TopicPartition, int]:
        return self._consumer.positions

    async def read(self, *, max_wait_ms: int) -> dict[TopicPartition, Fetched]:
        if not self.positions:
            wheres = [(INPUTS, index) for index in range(self._partitions)]
            admin = GroupAdmin(self._client)
            committed = await admin.committed(self._progress.group, wheres, stable=True)
            for where in wheres:
                known = committed.get(where)
                self.positions[where] = await self._progress.first_offset(
                    *where, known.offset if known else None
                )
        return await self._consumer.read(max_wait_ms=max_wait_ms)

    async def leave(self) -> None:
        """It was never in."""


class Processor:
    """One transactional id, and whoever has it at the time."""

    __slots__ = ("_attempt", "_entropy", "_log", "_name", "_newest", "_plan", "_stage")

    def __init__(self, stage: Stage, plan: ProcessorPlan, log: GroupLog, name: str) -> None:
        self._stage = stage
        self._plan = plan
        self._log = log
        self._name = name
        self._entropy: Random = stage.stream(name)
        self._attempt = 0
        self._newest = 0

    def start(self, delay_ms: int = 0) -> None:
        self._newest += 1
        newest = self._newest

        async def run(process: ClientProcess) -> None:
            while not self._stage.drained and not await self._live(process, newest):
                await asyncio.sleep(PAUSE_AFTER_FAILURE_S)

        self._stage.start_later(delay_ms, f"{self._name} instance {newest}", run)

    async def _live(self, process: ClientProcess, instance: int) -> bool:
        """As one producer and one member, until something goes wrong; True if a later instance
        has taken its place."""
        progress = Progress(self._log)
        member = self._new_member(process, progress)
        producer = TransactionalProducer(
            process.client, self._name, timeout_ms=self._plan.timeout_ms
        )
        try:
            await producer.init()  # before it asks where to begin: then nobody else goes on
            while not self._stage.drained:
                progress.about_to_read()
                fetched = await member.read(max_wait_ms=READ_WAIT_MS)
                progress.note_reads(member, fetched)
                if not await self._process(process, producer, member, fetched):
                    break
                await asyncio.sleep(PAUSE_BETWEEN_READS_S)
        except FAILURES:
            self._stage.history.failed += 1
        await member.leave()
        return instance < self._newest

    def _new_member(self, process: ClientProcess, progress: Progress) -> Membership | Alone:
        self._attempt += 1
        if self._plan.protocol == OWN_ASSIGNMENT:
            return Alone(process, self._stage.partitions[INPUTS], progress)
        return join_group(process, self._plan, progress, f"{self._name}-{self._attempt}")

    async def _process(
        self,
        process: ClientProcess,
        producer: TransactionalProducer,
        member: Membership | Alone,
        fetched: dict[TopicPartition, Fetched],
    ) -> bool:
        """One transaction for everything that was read. False: what was read must be read again,
        so the member begins anew."""
        offsets = {where: each.next_offset for where, each in fetched.items() if each.reads}
        if not offsets:
            return True
        generation, member_id = member.generation, member.member_id
        if generation < 0 and not isinstance(member, Alone):
            return False  # expelled since it read: without a generation nobody would refuse it
        await producer.begin()
        transaction = Transaction(self._name)
        self._stage.history.transactions.append(transaction)
        await producer.write(OUTPUTS, self._outputs(transaction, fetched))
        await producer.add_offsets(
            self._log.name, offsets, member_id=member_id, generation=generation
        )
        mischief = ""
        if not self._stage.stopped and self._entropy.randrange(100) < self._plan.mischief:
            mischief = self._entropy.choice(MISCHIEF)
            await self._misbehave(process, mischief)
        if mischief == "abort":
            await producer.abort()
            transaction.outcome = ABORTED
            return False
        transaction.outcome = ASKED
        await producer.commit()
        transaction.outcome = COMMITTED
        self._log.note_commit(offsets)
        return True

    def _outputs(
        self, transaction: Transaction, fetched: dict[TopicPartition, Fetched]
    ) -> list[NewRecord]:
        """One for every input, told apart from those of other attempts."""
        records = []
        self._attempt += 1
        for (_, index), each in fetched.items():
            partition = index % self._stage.partitions[OUTPUTS]
            for read in each.reads:
                source = (read.record.value or b"").decode()
                value = f"{source}@{self._name}-{self._attempt}".encode()
                sent = Sent(self._name, self._attempt, OUTPUTS, partition, once=True)
                self._stage.history.sent[value] = sent
                transaction.values.append(value)
                records.append(NewRecord(value, partition=partition))
        return records

    async def _misbehave(self, process: ClientProcess, mischief: str) -> None:
        entropy, plan = self._entropy, self._plan
        if mischief == "vanish":
            self.start(entropy.randrange(2_000))
            await self._stage.vanish(process, power_lost=entropy.random() < 0.5)
        elif mischief == "stand_still":
            longer_ms = max(plan.timeout_ms, plan.session_timeout_ms)
            await self._stage.stand_still(process, longer_ms * 3 // 2)
        elif mischief == "lose_connections":
            process.lose_connections()
        elif mischief == "successor":
            self.start(entropy.randrange(100))
