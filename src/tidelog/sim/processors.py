"""Read, process, write: each input exactly once, whoever fails (KIP-98, KIP-447)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.core.groups.records import CommittedOffset
from tidelog.core.groups.requests import CommitTransactionalOffsets, NewOffset
from tidelog.core.types import NO_PRODUCER, PartitionId
from tidelog.sim.clients import RETRY_MS
from tidelog.sim.coordination_plan import (
    CONSUMER,
    COOPERATIVE,
    INPUTS,
    OUTPUTS,
    OWN_ASSIGNMENT,
    ProcessorPlan,
)
from tidelog.sim.delivery_book import Input
from tidelog.sim.group_clients import IDLE_MS, GroupReader
from tidelog.sim.membership import (
    LOST,
    REBALANCE,
    ClassicMember,
    Compact,
    ConsumerProtocolMember,
    Membership,
    OwnAssignment,
    named,
)
from tidelog.sim.rules.transaction_facts import TAG
from tidelog.sim.scripted_client import Sleep, Steps
from tidelog.sim.transaction_book import SimTransaction
from tidelog.sim.transactional_producer import Style, TransactionalProducer

if TYPE_CHECKING:
    from tidelog.sim.world import World

MOST_RECORDS = 10
"""In one transaction."""


class Processor(GroupReader):
    """One instance. Its successor has the same transactional id, so both cannot commit."""

    __slots__ = ("_number", "_plan", "_producer", "succeeded")

    def __init__(self, world: World, plan: ProcessorPlan, group_id: str, number: int) -> None:
        super().__init__(world, group_id)
        self._plan = plan
        self._number = number
        self._producer = TransactionalProducer(
            self, Style(f"{group_id}-{number}", plan.version, plan.timeout_ms, plan.patience)
        )
        self.membership = self._make_membership()
        self.succeeded = False

    def _make_membership(self) -> Membership:
        plan, image = self._plan, self.world.image
        if plan.protocol == OWN_ASSIGNMENT:
            count = len(image.topics[image.topic_ids[INPUTS]].partitions)
            return OwnAssignment(tuple(range(self._number, count, plan.instances)))
        compact = Compact(
            self.group_id,
            plan.session_timeout_ms,
            plan.session_timeout_ms,
            cooperative=plan.protocol == COOPERATIVE,
        )
        if plan.protocol == CONSUMER:
            return ConsumerProtocolMember(self, compact)
        return ClassicMember(self, compact)

    def life(self) -> Steps[None]:
        while not self.done:
            self.positions.clear()
            if not (yield from self._producer.begin_anew()):
                if self.succeeded:
                    return
                yield Sleep(RETRY_MS)
            elif (yield from self.membership.join(())):
                yield from self._serve()
            else:
                yield Sleep(RETRY_MS)
            if self.succeeded and self._producer.fenced:
                return

    def _serve(self) -> Steps[None]:
        """Until it has to begin anew."""
        while (yield from self.adopt()):
            if not (yield from self._process()):
                return
            state = yield from self.membership.beat(self.owned)
            if state == REBALANCE:
                if self.membership.gives_up_first:
                    self.positions.clear()
                if not (yield from self.membership.join(self.owned)):
                    return
            elif state == LOST:
                return

    def _process(self) -> Steps[bool]:
        """One transaction: some inputs, their outputs, and how far it has come. False: begin
        anew, as nobody knows what became of it."""
        before = dict(self.positions)
        records = yield from self._take()
        if not records:
            yield Sleep(IDLE_MS)
            return True
        mischief = not self.stopping and self.chance(self._plan.mischief)
        action = self.entropy.choice(("abort", "crash", "usurp", "dawdle")) if mischief else ""
        transaction = self._producer.begin()
        complete = yield from self._write(transaction, records)
        if action in ("crash", "usurp"):
            self._succeed(action)
            if action == "crash":
                self.crash()
                return False
        if action == "dawdle":
            yield Sleep(self._plan.timeout_ms * 5 // 4)
        commit = complete and action != "abort"
        ended = yield from self._producer.end(transaction, commit=commit)
        if not ended or self._producer.fenced:
            return False
        if not commit:
            self.positions.update(before)
        if self._producer.unsure:
            return (yield from self._producer.go_on())
        return True

    def _take(self) -> Steps[list[Input]]:
        """What comes next in the partitions it owns."""
        found: list[Input] = []
        for index in self.owned:
            if len(found) >= MOST_RECORDS:
                break
            for offset, _value in (yield from self.poll(index, MOST_RECORDS - len(found))):
                self.world.books.deliveries.processed(self.group_id, named(index), offset)
                found.append(Input(self.group_id, named(index), offset))
        return found

    def _write(self, transaction: SimTransaction, inputs: list[Input]) -> Steps[bool]:
        image = self.world.image
        topic_id = image.topic_ids[OUTPUTS]
        count = len(image.topics[topic_id].partitions)
        batches: dict[int, list[int]] = {}
        for each in inputs:
            (value,) = self.world.new_values(1)
            self.world.books.deliveries.made(value, each)
            batches.setdefault(each.offset % count, []).append(value)
        for index, values in batches.items():
            partition = PartitionId(topic_id, index)
            for first in range(0, len(values), 5):
                some = tuple(values[first : first + 5])
                if not (yield from self._producer.send(transaction, partition, some)):
                    return False
        return (yield from self._producer.add_offsets(self._offsets(transaction)))

    def _offsets(self, transaction: SimTransaction) -> CommitTransactionalOffsets:
        """They name their transaction, so that the rules can tell whose they are."""
        tag = f"{TAG}{transaction.number}"
        offsets = tuple(
            NewOffset(named(index), CommittedOffset(position, -1, tag, self.now_ms))
            for index, position in sorted(self.positions.items())
        )
        standing = self.membership.standing
        return CommitTransactionalOffsets(self.group_id, *standing, None, NO_PRODUCER, -1, offsets)

    def _succeed(self, action: str) -> None:
        """Late after a crash: others of its group may take over what it was about to commit."""
        if not self.succeeded:
            self.succeeded = True
            sessions = 3 if action == "crash" else 1
            delay_ms = self.entropy.randrange(sessions * self._plan.session_timeout_ms)
            self.world.workload.start_processor(self._plan, self.group_id, self._number, delay_ms)
