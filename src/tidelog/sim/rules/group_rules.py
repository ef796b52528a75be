"""Rules about groups (reliability.md, rows 36 and 37 of its fault matrix)."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from tidelog.core.coordination import TopicPartition
from tidelog.core.errors import Error
from tidelog.core.events import MemberLeft
from tidelog.core.groups.classic_rebalance import CONNECTION_LOST
from tidelog.core.groups.records import ClassicGroup, CurrentAssignment
from tidelog.core.groups.requests import (
    CommitOffsets,
    CommitResponse,
    CommitTransactionalOffsets,
    ConsumerHeartbeat,
    FetchedOffset,
    FetchOffsets,
    FetchOffsetsResponse,
    Heartbeat,
    NewOffset,
)
from tidelog.core.types import NEVER_MS, PartitionId
from tidelog.sim.rules.chronicle import Chronicle, PartitionFacts
from tidelog.sim.rules.rule import Rule
from tidelog.sim.rules.transaction_facts import coordinator_kept, transaction_named
from tidelog.sim.rules.view import RecordBatch, Report, WorldView
from tidelog.sim.transaction_book import COMMIT

Commit = CommitOffsets | CommitTransactionalOffsets


class OneOwner(Rule):
    """At any time a partition belongs to at most one member of a group: within a generation of
    the classic protocol, across epochs of the consumer protocol."""

    name = "G1 one owner"

    def group_changed(
        self, facts: PartitionFacts, batch: RecordBatch, records: Sequence[object]
    ) -> None:
        consumers: dict[str, None] = {}
        for record in records:
            if isinstance(record, ClassicGroup) and record.value is not None:
                read = self.world.books.read_assignment
                shares = {each.member_id: read(each.assignment) for each in record.value.members}
                where = f"generation {record.value.generation} of {record.group_id}"
                self._check(facts, where, shares)
            elif isinstance(record, CurrentAssignment):
                consumers[record.group_id] = None
        for group_id in consumers:
            members = self.chronicle.groups.owners.get(group_id, {})
            shares = {
                member_id: tuple(
                    (topic, index)
                    for part in (value.assigned, value.pending_revocation)
                    for topic, indexes in part
                    for index in indexes
                )
                for member_id, value in members.items()
            }
            self._check(facts, f"{group_id} at offset {batch.base_offset}", shares)

    def _check(
        self, facts: PartitionFacts, where: str, shares: Mapping[str, Sequence[Hashable]]
    ) -> None:
        owners: dict[Hashable, str] = {}
        for member_id, share in shares.items():
            for index in share:
                other = owners.setdefault(index, member_id)
                if other != member_id:
                    self.broken_if_durable(
                        facts.id, f"{where}: partition {index} has {other} and {member_id}"
                    )


class CommitsAreKept(Rule):
    """An offset that was acknowledged is in the log for good, and whoever asks afterwards is
    told it or a later one, by any coordinator."""

    name = "G2 commits are kept"

    def coordinator_answered(
        self, partition: PartitionId, request: object, response: object, floor: int
    ) -> None:
        if isinstance(request, Commit):
            assert isinstance(response, CommitResponse), response
            for accepted in accepted_offsets(request, response):
                self._check_written(partition, request, accepted)
        elif isinstance(request, FetchOffsets):
            assert isinstance(response, FetchOffsetsResponse), response
            if response.error == Error.NONE:
                for fetched in response.offsets:
                    self._check_told(partition, request.group_id, fetched, floor)

    def _check_written(self, partition: PartitionId, request: Commit, new: NewOffset) -> None:
        groups = self.chronicle.groups
        if not groups.is_written(request.group_id, new.partition, new.value):
            self.broken_if_durable(
                partition,
                f"{request.group_id} was told that {new.value.offset} of"
                f" {new.partition.topic}-{new.partition.partition} is committed; it is not",
            )

    def _check_told(
        self, partition: PartitionId, group_id: str, fetched: FetchedOffset, floor: int
    ) -> None:
        if fetched.error != Error.NONE:
            return
        possible = self.chronicle.groups.possible(group_id, fetched.partition, floor)
        told = (fetched.offset, fetched.metadata)
        if told not in [(-1, "") if v is None else (v.offset, v.metadata) for v in possible]:
            name = fetched.partition
            self.broken_if_durable(
                partition,
                f"{group_id} was told offset {fetched.offset} ({fetched.metadata}) of"
                f" {name.topic}-{name.partition}, committed is {possible}",
            )


class OldGenerationsCommitNothing(Rule):
    """No offset is accepted from a generation or member epoch that is known to be over."""

    name = "G3 old generations commit nothing"

    def coordinator_answered(
        self, partition: PartitionId, request: object, response: object, floor: int
    ) -> None:
        if not isinstance(request, Commit) or request.generation < 0:
            return
        assert isinstance(response, CommitResponse), response
        if not accepted_offsets(request, response):
            return
        groups = self.chronicle.groups
        generation = groups.generation(request.group_id, floor)
        epoch = groups.member_epoch(request.group_id, request.member_id, floor)
        if request.generation < max(generation, epoch):
            self.broken_if_durable(
                partition,
                f"{request.group_id} accepted a commit of {request.member_id} in generation"
                f" {request.generation}, when {max(generation, epoch)} had begun",
            )


class NothingSkipped(Rule):
    """A group commits an offset only when its members have processed everything below it."""

    name = "G4 nothing is skipped"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        # Everything below was processed: looked at once.
        self._processed: dict[tuple[str, TopicPartition], int] = {}

    def coordinator_answered(
        self, partition: PartitionId, request: object, response: object, _floor: int
    ) -> None:
        if not isinstance(request, Commit):
            return
        assert isinstance(response, CommitResponse), response
        for accepted in accepted_offsets(request, response):
            self._check(partition, request.group_id, accepted)

    def _check(self, partition: PartitionId, group_id: str, new: NewOffset) -> None:
        books = self.world.books
        key = (group_id, new.partition)
        first = self._processed.get(key, 0)
        inputs = books.partition_named(new.partition)
        for offset in range(first, new.value.offset):
            if not books.deliveries.has(group_id, new.partition, offset):
                if self.world.expected_durable(inputs):
                    self.broken_if_durable(
                        partition,
                        f"{group_id} committed {new.value.offset} of {new.partition.topic}-"
                        f"{new.partition.partition}, nobody has processed {offset}",
                    )
                break
        self._processed[key] = max(first, new.value.offset)


class Pulse:
    """When the coordinator on one node heard a member, and how far apart its heartbeats were."""

    __slots__ = ("beat_ms", "gaps", "heard_ms", "session_ms", "told_ms")

    def __init__(self) -> None:
        self.heard_ms = 0
        self.beat_ms: int | None = None
        self.gaps: list[int] = []
        self.session_ms = NEVER_MS
        self.told_ms: int | None = None
        """The interval it was told to keep, by the consumer protocol."""

    def rhythm_ms(self) -> int:
        """0 if nothing is known of it."""
        return max(self.gaps[-3:], default=0) if self.told_ms is None else self.told_ms


class CutConnectionsEvictOnlyTheSilent(Rule):
    """A member that heartbeats in its rhythm is not evicted because a connection broke: whoever
    is evicted for that was silent for longer than between its heartbeats before."""

    name = "G5 cut connections evict only the silent"

    def __init__(self, world: WorldView, chronicle: Chronicle, report: Report) -> None:
        super().__init__(world, chronicle, report)
        self._pulses: dict[tuple[int, str, str], Pulse] = {}
        self._partitions: dict[str, PartitionId] = {}

    def coordinator_began(self, node: int, partition: PartitionId) -> None:
        """A coordinator that has just loaded its groups knows nothing of anybody's rhythm."""
        for key in list(self._pulses):
            if key[0] == node and self._partitions.get(key[1]) == partition:
                del self._pulses[key]

    def coordinator_answered(
        self, partition: PartitionId, request: Any, _response: object, _floor: int
    ) -> None:
        group_id = getattr(request, "group_id", None)
        if group_id is not None:
            self._partitions[group_id] = partition

    def member_joining(self, node: int, request: Any) -> None:
        """A rebalance: members send no heartbeats, whether or not they are ever answered."""
        pulse = self._pulses.get((node, request.group_id, request.member_id))
        if pulse is not None:
            pulse.beat_ms = None

    def member_heard(self, node: int, request: Any, response: Any, asked_ms: int) -> None:
        member_id = getattr(response, "member_id", None) or request.member_id
        if response.error not in (Error.NONE, Error.REBALANCE_IN_PROGRESS):
            return
        pulse = self._pulses.setdefault((node, request.group_id, member_id), Pulse())
        pulse.heard_ms = max(pulse.heard_ms, asked_ms)
        if isinstance(request, ConsumerHeartbeat):
            pulse.told_ms = response.heartbeat_interval_ms
        elif not isinstance(request, Heartbeat):
            pulse.session_ms = getattr(request, "session_timeout_ms", pulse.session_ms)
        else:
            gap_ms = 0 if pulse.beat_ms is None else asked_ms - pulse.beat_ms
            if gap_ms > pulse.session_ms:
                pulse.gaps.clear()  # it would be gone: the node stood still, not the member
            elif pulse.beat_ms is not None:
                pulse.gaps.append(gap_ms)
            pulse.beat_ms = asked_ms

    def member_left(self, node: int, event: MemberLeft, now_ms: int) -> None:
        pulse = self._pulses.pop((node, event.group_id, event.member_id), None)
        if pulse is None or event.reason != CONNECTION_LOST:
            return
        silent_ms = now_ms - pulse.heard_ms
        if silent_ms < pulse.rhythm_ms():
            self.broken(
                f"{event.group_id} evicted {event.member_id} {silent_ms} ms after it was heard of,"
                f" whose heartbeats come every {pulse.rhythm_ms()} ms"
            )


class AbortedOffsetsDoNotCount(Rule):
    """Offsets that a transaction wanted to commit count when it is committed, not before, and
    never if it is aborted."""

    name = "X6 aborted offsets do not count"

    def coordinator_answered(
        self, partition: PartitionId, request: object, response: object, _floor: int
    ) -> None:
        if not isinstance(request, FetchOffsets):
            return
        assert isinstance(response, FetchOffsetsResponse), response
        for fetched in response.offsets:
            transaction = transaction_named(self.world, fetched.metadata)
            if transaction is None:
                continue
            decision = self.chronicle.fates.decisions.get(transaction.number, {}).get(partition)
            if decision != COMMIT and coordinator_kept(self.world, transaction):
                self.broken_if_durable(
                    partition,
                    f"{request.group_id} was told offset {fetched.offset} of {transaction},"
                    f" which is {decision or 'not decided'}",
                )


def accepted_offsets(request: Commit, response: CommitResponse) -> list[NewOffset]:
    if response.error != Error.NONE:
        return []
    errors = response.errors or (Error.NONE,) * len(request.offsets)
    pairs = zip(request.offsets, errors, strict=True)
    return [offset for offset, error in pairs if error == Error.NONE]
