"""A replica's log as a list of batches: what `storage.Log` is on disk, at object level.

Besides the log protocol it keeps a running digest of every prefix (`chain_at`), so that rules
can compare whole logs by comparing two numbers.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from tidelog.core.coordination import Marker
from tidelog.core.replication.epochs import EpochHistory
from tidelog.core.replication.producers import ProducerStates
from tidelog.core.types import NO_EPOCH, NO_PRODUCER

_MASK = (1 << 61) - 1


class ObjectBatch(NamedTuple):
    """A record batch with its header's fields; each record is one number unique in the run. The
    record of a control batch is what `marker_batch` made of the end of a transaction."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    values: tuple[int, ...]
    is_transactional: bool = False
    is_control: bool = False

    def __str__(self) -> str:
        return (
            f"offsets {self.base_offset} to {self.last_offset} of leader epoch"
            f" {self.leader_epoch} (records {self.values[0]} to {self.values[-1]})"
        )


def client_batch(
    values: tuple[int, ...],
    *,
    timestamp: int = 0,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> ObjectBatch:
    """What a producer sends: offsets count from zero and the leader epoch is unknown."""
    assert values, "a client never sends an empty batch"
    return ObjectBatch(
        base_offset=0,
        last_offset=len(values) - 1,
        leader_epoch=NO_EPOCH,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(values),
        values=values,
    )


def marker_batch(marker: Marker, timestamp: int) -> ObjectBatch:
    """The end of a transaction. Its number says how it ended and who decided."""
    return ObjectBatch(
        base_offset=0,
        last_offset=0,
        leader_epoch=NO_EPOCH,
        max_timestamp=timestamp,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        base_sequence=-1,
        record_count=1,
        values=(marker.coordinator_epoch << 1 | marker.commit,),
        is_transactional=True,
        is_control=True,
    )


def marker_of(batch: ObjectBatch) -> Marker:
    assert batch.is_control, f"{batch} is no marker"
    (number,) = batch.values
    return Marker(batch.producer_id, batch.producer_epoch, bool(number & 1), number >> 1)


class Aborted(NamedTuple):
    """What a `read_committed` consumer has to leave out."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Of the marker."""


class ObjectLog:
    """Owner of one replica's records. Satisfies `core.replication.log_view.ReplicaLog`."""

    __slots__ = (
        "_aborted",
        "_bases",
        "_chains",
        "_start_chain",
        "batches",
        "durable_offset",
        "epochs",
        "fsync",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "synced_offset",
    )

    def __init__(self, *, fsync: bool, start_offset: int = 0) -> None:
        self.fsync = fsync
        self.batches: list[ObjectBatch] = []
        self._bases: list[int] = []
        self._chains: list[int] = []
        self._aborted: list[Aborted] = []
        self._start_chain = start_offset
        self.log_start_offset = start_offset
        self.log_end_offset = start_offset
        self.synced_offset = start_offset
        self.durable_offset = start_offset
        self.epochs = EpochHistory()
        self.producers = ProducerStates()

    # -- appending

    @property
    def may_have_gaps(self) -> bool:
        return False

    def append_as_leader(self, batch: ObjectBatch, leader_epoch: int) -> ObjectBatch:
        """Stamp base offset and leader epoch, as the broker does in the batch header."""
        base = self.log_end_offset
        stamped = batch._replace(
            base_offset=base, last_offset=base + batch.record_count - 1, leader_epoch=leader_epoch
        )
        self._append(stamped)
        return stamped

    def append_as_follower(self, batches: Sequence[ObjectBatch]) -> None:
        for batch in batches:
            self._append(batch)

    def _append(self, batch: ObjectBatch) -> None:
        assert batch.base_offset == self.log_end_offset, (batch.base_offset, self.log_end_offset)
        self.epochs.assign(batch.leader_epoch, batch.base_offset)
        if batch.producer_id != NO_PRODUCER:
            self._follow_producer(batch)
        self._chains.append(_chain(self._chains[-1] if self._chains else self._start_chain, batch))
        self.batches.append(batch)
        self._bases.append(batch.base_offset)
        self.log_end_offset = batch.last_offset + 1
        if not self.fsync:
            self.durable_offset = self.log_end_offset

    def _follow_producer(self, batch: ObjectBatch) -> None:
        if not batch.is_control:
            self.producers.update(batch)
            return
        marker = marker_of(batch)
        ended = self.producers.update(batch, marker.coordinator_epoch)
        if ended is not None and not marker.commit:
            self._aborted.append(Aborted(ended.producer_id, ended.first_offset, ended.last_offset))

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        self.epochs.assign(leader_epoch, start_offset)

    # -- reading

    def read(self, from_offset: int, to_offset: int, max_batches: int) -> tuple[ObjectBatch, ...]:
        """Whole batches from the one that holds `from_offset`, all of them below `to_offset`."""
        if from_offset >= to_offset or from_offset >= self.log_end_offset:
            return ()
        first = max(0, bisect_right(self._bases, from_offset) - 1)
        last = bisect_left(self._bases, to_offset, first)
        found = self.batches[first : min(last, first + max_batches)]
        if found and found[-1].last_offset >= to_offset:
            found.pop()
        return tuple(found)

    def aborted(self, from_offset: int, to_offset: int) -> tuple[Aborted, ...]:
        """Aborted transactions with a record in this range."""
        return tuple(
            each
            for each in self._aborted
            if each.last_offset >= from_offset and each.first_offset < to_offset
        )

    def batch_at(self, offset: int) -> ObjectBatch | None:
        """The batch that holds this offset."""
        index = bisect_right(self._bases, offset) - 1
        if index < 0 or self.batches[index].last_offset < offset:
            return None
        return self.batches[index]

    def chain_at(self, offset: int) -> int | None:
        """Digest of everything below `offset`; None when it is not a batch border we know."""
        index = bisect_left(self._bases, offset) - 1
        if index < 0 or self.batches[index].last_offset != offset - 1:
            return None
        return self._chains[index]

    # -- cutting

    def truncate_to(self, offset: int) -> None:
        """Remove every batch that reaches `offset` or beyond, also one it would cut in two."""
        keep, end = self._kept_below(offset), self.end_after_cut(offset)
        assert end <= self.log_end_offset, (end, self.log_end_offset)
        removed = len(self.batches) > keep
        del self.batches[keep:], self._bases[keep:], self._chains[keep:]
        self.log_end_offset = end
        self.synced_offset = min(self.synced_offset, end)
        self.durable_offset = min(self.durable_offset, end)
        # Even without bytes to cut, an epoch entry at the end may have to go (KAFKA-10706).
        self.epochs.truncate_from_end(end)
        if removed:
            self.rebuild_producers()

    def end_after_cut(self, offset: int) -> int:
        """Where the log would end after `truncate_to(offset)`."""
        keep = self._kept_below(offset)
        return self.batches[keep - 1].last_offset + 1 if keep else self.log_start_offset

    def _kept_below(self, offset: int) -> int:
        """How many batches end before `offset`."""
        keep = bisect_left(self._bases, offset)
        if keep and self.batches[keep - 1].last_offset >= offset:
            keep -= 1
        return keep

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self.batches.clear()
        self._bases.clear()
        self._chains.clear()
        self.epochs.clear()
        self.producers.clear()
        self._aborted.clear()
        self._start_chain = offset
        self.log_start_offset = self.log_end_offset = offset
        self.synced_offset = self.durable_offset = offset

    def raise_log_start(self, offset: int) -> None:
        """Forget whole batches below `offset`; the log never starts after its end."""
        offset = min(offset, self.log_end_offset)
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        gone = bisect_left(self._bases, offset)
        if gone and self.batches[gone - 1].last_offset >= offset:
            gone -= 1
        if gone:
            self._start_chain = self._chains[gone - 1]
            del self.batches[:gone], self._bases[:gone], self._chains[:gone]
        self.epochs.truncate_from_start(offset)

    def rebuild_producers(self) -> None:
        """Sequence state is a function of the log: replay what is left."""
        self.producers.clear()
        self._aborted.clear()
        for batch in self.batches:
            if batch.producer_id != NO_PRODUCER:
                self._follow_producer(batch)

    # -- durability

    def sync(self) -> None:
        self.synced_offset = self.durable_offset = self.log_end_offset

    def lose_tail(self, keep_offset: int) -> int:
        """Power is gone: keep what was synced, and of the rest what lies below `keep_offset`.

        Returns the number of records lost.
        """
        before = self.log_end_offset
        self.truncate_to(max(keep_offset, self.synced_offset))
        self.reload()
        return before - self.log_end_offset

    def reload(self) -> None:
        """What a restart does: what is left is on disk, derived state is made anew."""
        self.epochs.truncate_from_end(self.log_end_offset)
        self.rebuild_producers()
        self.sync()


class CompactedLog(ObjectLog):
    """Batches may be gone from it, or have fewer records than they had."""

    @property
    def may_have_gaps(self) -> bool:
        return True


def _chain(previous: int, batch: ObjectBatch) -> int:
    """Numbers only: `hash()` of anything else would differ between processes."""
    mixed = previous * 6364136223846793005 + batch.base_offset * 1442695040888963407
    mixed += batch.leader_epoch * 1099511628211 + batch.values[-1] * 805306457
    return (mixed + batch.values[0] * 2654435761) & _MASK
