"""What groups have agreed on and how far they have come, read from committed prefixes of logs.

A replay of its own: it must not share the mistakes it is there to find. Of two commits for one
partition the later one in the log counts, a transactional one where it was written (KIP-447).
"""

from typing import NamedTuple

from tidelog.core.coordination import TopicPartition
from tidelog.core.groups.records import (
    ClassicGroup,
    CommittedOffset,
    ConsumerMember,
    CurrentAssignment,
    CurrentAssignmentValue,
    OffsetCommit,
)
from tidelog.core.types import PartitionId
from tidelog.sim.rules.view import RecordBatch

Key = tuple[str, TopicPartition]


class Known(NamedTuple):
    """From this offset of the group's log on."""

    since: int
    value: CommittedOffset | None


class Numbered(NamedTuple):
    since: int
    number: int


class GroupFacts:
    __slots__ = ("_committed", "_generations", "_member_epochs", "_pending", "_written", "owners")

    def __init__(self) -> None:
        self._committed: dict[Key, list[Known]] = {}
        self._written: dict[Key, dict[CommittedOffset, int]] = {}
        """Every commit with its place in the log, also those of transactions."""
        self._pending: dict[tuple[PartitionId, int], dict[Key, Known]] = {}
        self._generations: dict[str, list[Numbered]] = {}
        self._member_epochs: dict[tuple[str, str], list[Numbered]] = {}
        self.owners: dict[str, dict[str, CurrentAssignmentValue]] = {}
        """Group of the consumer protocol → member → what it has and has to give up."""

    # -- following the logs

    def follow(
        self, partition: PartitionId, batch: RecordBatch, records: tuple[object, ...]
    ) -> None:
        offset = batch.base_offset
        for record in records:
            if isinstance(record, OffsetCommit):
                self._follow_offset(partition, batch, record)
            elif isinstance(record, ClassicGroup):
                generation = -1 if record.value is None else record.value.generation
                numbers = self._generations.setdefault(record.group_id, [])
                numbers.append(Numbered(offset, generation))
            elif isinstance(record, CurrentAssignment):
                self._follow_member(offset, record)
            elif isinstance(record, ConsumerMember) and record.value is None:
                self.owners.get(record.group_id, {}).pop(record.member_id, None)

    def _follow_offset(
        self, partition: PartitionId, batch: RecordBatch, record: OffsetCommit
    ) -> None:
        key = (record.group_id, record.partition)
        known = Known(batch.base_offset, record.value)
        if record.value is not None:
            self._written.setdefault(key, {})[record.value] = batch.base_offset
        if batch.is_transactional:
            self._pending.setdefault((partition, batch.producer_id), {})[key] = known
            return
        self._committed.setdefault(key, []).append(known)
        if record.value is None:
            for pending in self._pending.values():
                pending.pop(key, None)

    def _follow_member(self, offset: int, record: CurrentAssignment) -> None:
        members = self.owners.setdefault(record.group_id, {})
        numbers = self._member_epochs.setdefault((record.group_id, record.member_id), [])
        if record.value is None:
            members.pop(record.member_id, None)
            numbers.append(Numbered(offset, -1))
        else:
            members[record.member_id] = record.value
            numbers.append(Numbered(offset, record.value.member_epoch))

    def end(self, partition: PartitionId, marker: RecordBatch) -> None:
        """A transaction ends in the log of a group."""
        pending = self._pending.pop((partition, marker.producer_id), None)
        if pending is None or not marker.values[0] & 1:
            return
        for key, known in pending.items():
            history = self._committed.setdefault(key, [])
            before = self._written_at(key, history[-1].value) if history else -1
            if before < known.since:
                history.append(Known(marker.base_offset, known.value))

    def _written_at(self, key: Key, value: CommittedOffset | None) -> int:
        if value is None:
            return self._committed[key][-1].since
        return self._written[key][value]

    # -- questions

    def committed(self, group_id: str, partition: TopicPartition) -> CommittedOffset | None:
        history = self._committed.get((group_id, partition))
        return history[-1].value if history else None

    def possible(
        self, group_id: str, partition: TopicPartition, floor: int
    ) -> list[CommittedOffset | None]:
        """What may be answered to somebody who asked when the log was committed up to `floor`:
        what counted then, or anything since."""
        found: list[CommittedOffset | None] = [None]
        for known in self._committed.get((group_id, partition), ()):
            if known.since < floor:
                found = [known.value]
            else:
                found.append(known.value)
        return found

    def has_pending(self, partition: PartitionId) -> bool:
        """Are there offsets in this log whose transaction has not ended?"""
        return any(where == partition for where, _ in self._pending)

    def is_written(self, group_id: str, partition: TopicPartition, value: CommittedOffset) -> bool:
        return value in self._written.get((group_id, partition), {})

    def generation(self, group_id: str, floor: int) -> int:
        """Of a classic group when its log was committed up to `floor`; -1 if it had none."""
        return _number_at(self._generations.get(group_id, []), floor)

    def member_epoch(self, group_id: str, member_id: str, floor: int) -> int:
        return _number_at(self._member_epochs.get((group_id, member_id), []), floor)


def _number_at(numbers: list[Numbered], floor: int) -> int:
    found = -1
    for since, number in numbers:
        if since >= floor:
            break
        found = number
    return found
