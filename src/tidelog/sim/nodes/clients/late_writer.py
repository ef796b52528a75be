"""Clients whose transactions are followed by requests that belong to them and come too late."""

import asyncio
from typing import Final

from tidelog.client.transactional_producer import TransactionalProducer
from tidelog.sim.nodes.client_plan import LatePlan
from tidelog.sim.nodes.clients.history import ABORTED, ASKED, COMMITTED, Sent, Transaction
from tidelog.sim.nodes.clients.late_producers import (
    FirstVersionLinks,
    FirstVersionProducer,
    Identity,
    LateProducer,
)
from tidelog.sim.nodes.clients.process import ClientProcess
from tidelog.sim.nodes.clients.stage import TRANSFERS, Stage, pause_s
from tidelog.sim.nodes.clients.transactional import TransactionalWriter

FIRST_VERSION: Final = 1
CLIENT_ID: Final = "late"
LATE_BATCH, LATE_END, REPEATED_END = "late_batch", "late_end", "repeated_end"
GAP: Final = "gap"
"""A batch is missing before this one."""


class LateWriter(TransactionalWriter):
    """Goes on with its next transaction, and says something of the one before."""

    __slots__ = ("_late", "_mischief")

    def __init__(self, stage: Stage, plan: LatePlan, name: str) -> None:
        super().__init__(stage, plan.usual, name)
        self._late = plan
        # With version 1 a repeated EndTxn looks like that of the next transaction.
        repeated = () if plan.version == FIRST_VERSION else (REPEATED_END,)
        self._mischief = (LATE_BATCH, LATE_END, GAP, *repeated)

    def _producer(self, process: ClientProcess) -> LateProducer:
        make: type[LateProducer] = LateProducer
        if self._late.version == FIRST_VERSION:
            make = FirstVersionProducer
            process.client.links = FirstVersionLinks(process.new_network(), CLIENT_ID)
        return make(process.client, self._name, timeout_ms=self._plan.timeout_ms)

    async def _transact(self, process: ClientProcess, producer: TransactionalProducer) -> None:
        assert isinstance(producer, LateProducer), producer
        entropy, mischief = self._entropy, ""
        if entropy.randrange(100) < self._plan.mischief and not self._stage.stopped:
            mischief = entropy.choice(self._mischief)
        transaction = await self._write(producer)
        identity = _identity(producer)
        if mischief == LATE_BATCH:
            await self._end(producer, transaction, commit=False)
            await asyncio.sleep(pause_s(entropy, 50))
            late = self._late_value(transaction, transaction)
            await producer.write_late(identity, TRANSFERS, *late)
            self._history.done[mischief] += 1
        elif mischief == GAP:
            refused = Transaction(self._name)
            refused.outcome = ABORTED
            self._history.transactions.append(refused)
            await producer.write_after_gap(TRANSFERS, *self._late_value(transaction, refused))
            self._history.done[mischief] += 1
            await self._end(producer, transaction, commit=entropy.random() < 0.8)
        elif mischief in (LATE_END, REPEATED_END):
            if mischief == LATE_END:
                await producer.init()
            else:
                await self._end(producer, transaction, commit=True)
            transaction = await self._write(producer)
            await producer.end_late(identity)
            self._history.done[mischief] += 1
            await self._end(producer, transaction, commit=entropy.random() < 0.5)
        else:
            await self._end(producer, transaction, commit=entropy.random() < 0.8)

    async def _write(self, producer: LateProducer) -> Transaction:
        await producer.begin()
        transaction = Transaction(self._name)
        self._history.transactions.append(transaction)
        for _ in range(self._entropy.randrange(self._plan.writes) + 1):
            await producer.write(TRANSFERS, self._draw_records(transaction))
        await asyncio.sleep(pause_s(self._entropy, self._late.open_ms))
        return transaction

    async def _end(self, producer: LateProducer, transaction: Transaction, *, commit: bool) -> None:
        if commit:
            transaction.outcome = ASKED
            await producer.commit()
            transaction.outcome = COMMITTED
        else:
            await producer.abort()
            transaction.outcome = ABORTED

    def _late_value(self, transaction: Transaction, belongs_to: Transaction) -> tuple[int, bytes]:
        """For where the transaction wrote before, if it went there last."""
        where = self._history.sent[transaction.values[-1]].partition
        late = f"{self._name}-{self._number}".encode()
        self._history.sent[late] = Sent(self._name, self._number, TRANSFERS, where, once=True)
        self._number += 1
        belongs_to.values.append(late)
        return where, late


def _identity(producer: LateProducer) -> Identity:
    identity = producer.identity
    assert identity is not None, "it has written"
    return identity
