"""Clients of transactions: who writes in them, and who reads only what they committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.replication.inputs import ConsumerFetch
from tidelog.core.types import PartitionId
from tidelog.sim import messages as m
from tidelog.sim.clients import ConsumerClient
from tidelog.sim.coordination_plan import TRANSFERS, WriterPlan
from tidelog.sim.history import Read
from tidelog.sim.scripted_client import ScriptedClient, Sleep, Steps
from tidelog.sim.sim_log import Aborted, SimBatch
from tidelog.sim.transaction_book import SimTransaction
from tidelog.sim.transactional_producer import Style, TransactionalProducer

if TYPE_CHECKING:
    from tidelog.sim.world import World

LONGEST_BREAK_MS = 300
MISCHIEF = ("abort", "crash", "usurp", "dawdle", "hasty")
"""It aborts on purpose; vanishes; is followed while it still goes on; is late; does not wait."""


class TransactionWriter(ScriptedClient):
    """One instance of a producer that writes to several partitions in one transaction."""

    __slots__ = ("_plan", "_producer", "_transactional_id", "succeeded")

    def __init__(self, world: World, plan: WriterPlan, transactional_id: str) -> None:
        super().__init__(world)
        self._plan = plan
        self._transactional_id = transactional_id
        self._producer = TransactionalProducer(
            self, Style(transactional_id, plan.version, plan.timeout_ms, plan.patience)
        )
        self.succeeded = False
        """A newer instance has been started."""

    def life(self) -> Steps[None]:
        producer = self._producer
        while not self.stopping:
            if not (yield from producer.begin_anew()):
                if self.succeeded:
                    return
                continue
            while not self.stopping and not producer.fenced:
                if not (yield from self._transaction()):
                    break
                if producer.unsure:
                    # Nothing is to be sent for a while: until then its epoch is the old one.
                    yield Sleep(self.entropy.randrange(LONGEST_BREAK_MS))
                    if not (yield from producer.go_on()):
                        break
                yield Sleep(self._plan.interval_ms)
            if self.succeeded or self.done:
                return

    def _transaction(self) -> Steps[bool]:
        """False: whatever became of it, this instance starts over or is gone."""
        producer, transaction = self._producer, self._producer.begin()
        mischief = self.chance(self._plan.mischief)
        action = self.entropy.choice(MISCHIEF) if mischief else ""
        complete = yield from self._write(transaction)
        if action == "hasty" and complete:
            partition, values = self._draw_partition(), self.world.new_values(1)
            complete = yield from producer.send(transaction, partition, values, hasty=True)
        if action in ("crash", "usurp"):
            self._succeed(action)
            if action == "crash":
                self.crash()
                return False
        if action == "dawdle":
            yield Sleep(self._plan.timeout_ms * 5 // 4)
        if not transaction.values:
            return True
        commit = complete and action != "abort"
        ended = yield from producer.end(transaction, commit=commit)
        return ended

    def _write(self, transaction: SimTransaction) -> Steps[bool]:
        for _ in range(self.entropy.randint(1, self._plan.batches)):
            partition = self._draw_partition()
            values = self.world.new_values(self.entropy.choice((1, 1, 2)))
            if not (yield from self._producer.send(transaction, partition, values)):
                return False
        return True

    def _draw_partition(self) -> PartitionId:
        topic_id = self.world.image.topic_ids[TRANSFERS]
        count = len(self.world.image.topics[topic_id].partitions)
        return PartitionId(topic_id, self.entropy.randrange(count))

    def _succeed(self, action: str) -> None:
        """Somebody starts another instance: too early, while this one goes on, or after it."""
        if self.succeeded or self.stopping:
            return
        self.succeeded = True
        delay_ms = 0 if action == "usurp" else self.entropy.randrange(2 * self._plan.timeout_ms)
        self.world.workload.start_writer(self._plan, self._transactional_id, delay_ms)


class CommittedReader(ConsumerClient):
    """Reads one partition from its beginning, and only what transactions committed."""

    __slots__ = ()

    def _fetch(self) -> ConsumerFetch:
        return super()._fetch()._replace(read_committed=True)

    def _take_reply(self, reply: m.ConsumerReadReply) -> None:
        batches = tuple(committed_only(reply.batches, reply.aborted))
        self._world.judge.committed_read(self.address, self.partition, batches)
        reads = [
            Read(self.partition, offset, value)
            for batch in batches
            for offset, value in enumerate(batch.values, batch.base_offset)
            if offset >= self.position
        ]
        if reads:
            self._world.recorder.polled(self.address, self.partition, reads)
        self._moved_past(reply.batches[-1])


def committed_only(batches: tuple[SimBatch, ...], aborted: tuple[Aborted, ...]) -> list[SimBatch]:
    """What a `read_committed` consumer shows of what it was sent: neither markers, nor records
    of a transaction that the broker says was aborted."""
    ahead = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    open_aborted: dict[int, int] = {}
    shown = []
    for batch in batches:
        while ahead and ahead[-1].first_offset <= batch.last_offset:
            entry = ahead.pop()
            open_aborted[entry.producer_id] = entry.last_offset
        if batch.is_control:
            open_aborted.pop(batch.producer_id, None)
        elif not batch.is_transactional or batch.producer_id not in open_aborted:
            shown.append(batch)
    return shown
