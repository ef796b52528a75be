"""How far groups have come: committed offsets, and those that wait for the end of a transaction.

Of two commits for one partition the later one in the log counts, and a transactional one stands
where it was written, not where its marker is: so a commit written during the transaction wins
over it (KIP-447). Every record gets a number in the order of the log for that.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tidelog.core.coordination import (
    NOTHING,
    Answer,
    Marker,
    Outcome,
    ProducerStamp,
    TopicPartition,
    Write,
)
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.groups.kinds import Commit
from tidelog.core.groups.records import CommittedOffset, OffsetCommit
from tidelog.core.groups.requests import (
    CommitResponse,
    CommitTransactionalOffsets,
    FetchedOffset,
    FetchOffsets,
    FetchOffsetsResponse,
    NewOffset,
)
from tidelog.core.groups.settings import GroupSettings


class NumberedOffset(NamedTuple):
    number: int
    value: CommittedOffset


ByPartition = dict[TopicPartition, NumberedOffset]


class Offsets:
    """The offsets of all groups of one shard, whatever their protocol."""

    __slots__ = ("_committed", "_last_number", "_open", "_pending", "_settings")

    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self._last_number = 0
        self._committed: dict[str, ByPartition] = {}
        self._pending: dict[int, dict[str, ByPartition]] = {}
        """Producer id → group → what its open transaction wants to commit."""
        self._open: dict[str, dict[TopicPartition, set[int]]] = {}
        """Group → partition → producers with something pending for it."""

    # -- questions

    def groups(self) -> list[str]:
        return [*self._committed, *(each for each in self._open if each not in self._committed)]

    def holds(self, group_id: str) -> bool:
        return group_id in self._committed or group_id in self._open

    def has_pending(self, group_id: str) -> bool:
        return group_id in self._open

    def committed(self) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        """What a coordinator that reads the log will know."""
        return {
            group_id: {partition: each.value for partition, each in offsets.items()}
            for group_id, offsets in self._committed.items()
        }

    def pending(self) -> dict[int, dict[str, dict[TopicPartition, CommittedOffset]]]:
        return {
            producer_id: {
                group_id: {partition: each.value for partition, each in offsets.items()}
                for group_id, offsets in groups.items()
            }
            for producer_id, groups in self._pending.items()
        }

    def fetch(self, request: FetchOffsets) -> FetchOffsetsResponse:
        committed = self._committed.get(request.group_id, {})
        unstable = self._open.get(request.group_id, {}) if request.require_stable else {}
        asked: Iterable[TopicPartition] = request.partitions or ()
        if request.partitions is None:
            asked = sorted({*committed, *unstable})
        return FetchOffsetsResponse(
            NO_ERROR, tuple(_fetched(each, committed, unstable) for each in asked)
        )

    # -- decisions: what to write

    def commit(self, request: Commit, token: object) -> Outcome:
        """Who may commit has been asked already. Each offset is taken or refused for itself."""
        errors = tuple(self._error(each) for each in request.offsets)
        records = tuple(
            OffsetCommit(request.group_id, each.partition, each.value)
            for each, error in zip(request.offsets, errors, strict=True)
            if error is NO_ERROR
        )
        stamp = None
        if isinstance(request, CommitTransactionalOffsets):
            stamp = ProducerStamp(request.producer_id, request.producer_epoch)
        return Outcome(
            writes=(Write(records, stamp),) if records else (),
            answers=(Answer(token, CommitResponse(NO_ERROR, errors)),),
        )

    def tombstones(
        self, group_id: str, wanted: Callable[[TopicPartition], bool] = lambda _: True
    ) -> tuple[OffsetCommit, ...]:
        """Ends what is known of these partitions, also what is pending."""
        known = {**self._committed.get(group_id, {}), **self._open.get(group_id, {})}
        return tuple(OffsetCommit(group_id, each, None) for each in known if wanted(each))

    def forget_topic(self, topic: str) -> Outcome:
        ends = (self.tombstones(each, lambda it: it.topic == topic) for each in self.groups())
        writes = tuple(Write(each) for each in ends if each)
        return Outcome(writes=writes) if writes else NOTHING

    def expired(
        self, group_id: str, *, since_ms: int, now_wall_ms: int
    ) -> tuple[OffsetCommit, ...]:
        """Tombstones for what is older than the retention. Nobody has read since `since_ms`."""
        latest_ms = now_wall_ms - self._settings.offsets_retention_ms
        if since_ms > latest_ms:
            return ()
        unstable = self._open.get(group_id, {})
        return tuple(
            OffsetCommit(group_id, partition, None)
            for partition, each in self._committed.get(group_id, {}).items()
            if each.value.commit_timestamp_ms <= latest_ms and partition not in unstable
        )

    def count(self, group_id: str) -> int:
        return len({**self._committed.get(group_id, {}), **self._open.get(group_id, {})})

    # -- following the log

    def replay(self, record: OffsetCommit, stamp: ProducerStamp | None) -> None:
        self._last_number += 1
        group_id, partition, value = record
        if value is None:
            _take(self._committed, group_id, partition)
            for producer_id in self._open.get(group_id, {}).get(partition, frozenset()):
                _take(self._pending[producer_id], group_id, partition)
                if not self._pending[producer_id]:
                    del self._pending[producer_id]
            _take(self._open, group_id, partition)
            return
        numbered = NumberedOffset(self._last_number, value)
        if stamp is None:
            self._committed.setdefault(group_id, {})[partition] = numbered
            return
        groups = self._pending.setdefault(stamp.producer_id, {})
        groups.setdefault(group_id, {})[partition] = numbered
        producers = self._open.setdefault(group_id, {}).setdefault(partition, set())
        producers.add(stamp.producer_id)

    def replay_marker(self, marker: Marker) -> None:
        groups = self._pending.pop(marker.producer_id, {})
        for group_id, partition, numbered in _flat(groups):
            producers = self._open[group_id][partition]
            assert numbered.number <= self._last_number, (
                f"offset {numbered.number} is beyond the log, {self._last_number}"
            )
            assert marker.producer_id in producers, f"{marker.producer_id} not in {producers}"
            producers.remove(marker.producer_id)
            if not producers:
                _take(self._open, group_id, partition)
            if marker.commit:
                committed = self._committed.setdefault(group_id, {})
                existing = committed.get(partition)
                if existing is None or existing.number < numbered.number:
                    committed[partition] = numbered

    # -- inside

    def _error(self, offset: NewOffset) -> Error:
        if len(offset.value.metadata.encode()) > self._settings.offset_metadata_max_bytes:
            return Error.OFFSET_METADATA_TOO_LARGE
        return NO_ERROR


def _fetched(
    partition: TopicPartition, committed: ByPartition, unstable: Iterable[TopicPartition]
) -> FetchedOffset:
    if partition in unstable:
        return FetchedOffset(partition, Error.UNSTABLE_OFFSET_COMMIT)
    found = committed.get(partition)
    if found is None:
        return FetchedOffset(partition)
    value = found.value
    return FetchedOffset(partition, NO_ERROR, value.offset, value.leader_epoch, value.metadata)


def _take(
    groups: dict[str, dict[TopicPartition, NumberedOffset]]
    | dict[str, dict[TopicPartition, set[int]]],
    group_id: str,
    partition: TopicPartition,
) -> None:
    """Groups without partitions are not kept."""
    partitions = groups.get(group_id)
    if partitions is not None:
        partitions.pop(partition, None)
        if not partitions:
            del groups[group_id]


def _flat(
    groups: dict[str, ByPartition],
) -> Iterator[tuple[str, TopicPartition, NumberedOffset]]:
    for group_id, offsets in groups.items():
        for partition, numbered in offsets.items():
            yield group_id, partition, numbered
