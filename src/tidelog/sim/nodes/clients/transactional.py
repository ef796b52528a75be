"""Clients that write to several partitions in one transaction, and do not always end it."""

import asyncio
from random import Random
from typing import Final

from tidelog.client import NewRecord
from tidelog.client.transactional_producer import TransactionalProducer
from tidelog.sim.nodes.client_plan import TransactionalPlan
from tidelog.sim.nodes.clients.history import ABORTED, ASKED, COMMITTED, History, Sent, Transaction
from tidelog.sim.nodes.clients.process import ClientProcess
from tidelog.sim.nodes.clients.stage import (
    FAILURES,
    PAUSE_AFTER_FAILURE_S,
    TRANSFERS,
    Stage,
    pause_s,
)

MISCHIEF: Final = ("abort", "vanish", "dawdle", "stand_still", "successor")


class TransactionalWriter:
    """All instances of one transactional id. The newest one goes on for ever; an earlier one
    ends when it is refused."""

    __slots__ = ("_entropy", "_history", "_name", "_newest", "_number", "_plan", "_stage")

    def __init__(self, stage: Stage, plan: TransactionalPlan, name: str) -> None:
        self._stage = stage
        self._history: History = stage.history
        self._plan = plan
        self._name = name
        self._entropy: Random = stage.stream(name)
        self._number = 0
        self._newest = 0

    def start(self, delay_ms: int = 0) -> None:
        self._newest += 1
        newest = self._newest

        async def run(process: ClientProcess) -> None:
            await self._run(process, newest)

        self._stage.start_later(delay_ms, f"{self._name} instance {newest}", run)

    async def _run(self, process: ClientProcess, instance: int) -> None:
        producer = self._producer(process)
        while not self._stage.stopped:
            try:
                await self._transact(process, producer)
            except FAILURES:
                self._history.failed += 1
                if instance < self._newest:
                    return
                producer = self._producer(process)
                await asyncio.sleep(PAUSE_AFTER_FAILURE_S)
            await asyncio.sleep(pause_s(self._entropy, self._plan.pause_ms))

    def _producer(self, process: ClientProcess) -> TransactionalProducer:
        plan = self._plan
        return TransactionalProducer(
            process.client, self._name, timeout_ms=plan.timeout_ms, codec=plan.codec
        )

    async def _transact(self, process: ClientProcess, producer: TransactionalProducer) -> None:
        await producer.begin()
        transaction = Transaction(self._name)
        self._history.transactions.append(transaction)
        entropy = self._entropy
        for _ in range(entropy.randrange(self._plan.writes) + 1):
            await producer.write(TRANSFERS, self._draw_records(transaction))
        mischief = ""
        if entropy.randrange(100) < self._plan.mischief and not self._stage.stopped:
            mischief = entropy.choice(MISCHIEF)
        await self._misbehave(process, mischief)
        if mischief == "abort":
            await producer.abort()
            transaction.outcome = ABORTED
        else:
            transaction.outcome = ASKED
            await producer.commit()
            transaction.outcome = COMMITTED

    async def _misbehave(self, process: ClientProcess, mischief: str) -> None:
        entropy, too_long_ms = self._entropy, self._plan.timeout_ms * 3 // 2
        if mischief == "vanish":
            self.start(entropy.randrange(2_000))
            await self._stage.vanish(process, power_lost=entropy.random() < 0.5)
        elif mischief == "dawdle":
            await asyncio.sleep(too_long_ms / 1000)
        elif mischief == "stand_still":
            await self._stage.stand_still(process, too_long_ms)
        elif mischief == "successor":
            self.start(entropy.randrange(20))
            await asyncio.sleep(pause_s(entropy, 40))

    def _draw_records(self, transaction: Transaction) -> list[NewRecord]:
        records = []
        for _ in range(self._entropy.randrange(1, 4)):
            partition = self._entropy.randrange(self._stage.partitions[TRANSFERS])
            value = f"{self._name}-{self._number}".encode()
            sent = Sent(self._name, self._number, TRANSFERS, partition, once=True)
            self._history.sent[value] = sent
            self._number += 1
            transaction.values.append(value)
            records.append(NewRecord(value, partition=partition))
        return records
