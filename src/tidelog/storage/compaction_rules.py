"""Which records of a compacted log survive (replication.md §2.3, KIP-98, KIP-534).

- The newest record of a key, at its own offset.
- A tombstone for `delete.retention.ms` after it was first cleaned: who reads from the start
  must have the time to see that the key is gone. The moment is written into the batch.
- Nothing of an aborted transaction. Its marker stays while the log may hold a record of it,
  and then as long as a tombstone: a reader may have begun before and wait for the end.
- The last batch of each producer, empty if need be: its sequences must be found again.
- No record without a key.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tidelog.core.replication.producers import ProducerEntry
from tidelog.storage.indexes import AbortedTransaction
from tidelog.storage.key_offsets import KeyOffsets
from tidelog.storage.scan import ScannedBatch
from tidelog.wire.records import (
    BatchHeader,
    Record,
    end_txn_marker,
    iter_records,
    rewrite,
)


class Cleaned(NamedTuple):
    """What became of a batch: its bytes from now on, None if it is gone."""

    data: bytes | bytearray | memoryview | None
    changed: bool
    aborted: AbortedTransaction | None = None


class CleaningRules(NamedTuple):
    """What decides, the same for all batches of one pass."""

    keys: KeyOffsets
    producers: Mapping[int, ProducerEntry]
    trusted_now_ms: int
    delete_horizon_ms: int


class TransactionWalk:
    """Follows the transactions of a log batch by batch, from its start."""

    __slots__ = ("_ahead", "_committed", "_open_aborted", "_seen_aborted")

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._ahead = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._open_aborted: dict[int, AbortedTransaction] = {}
        self._seen_aborted: set[int] = set()
        self._committed: set[int] = set()

    def is_aborted(self, header: BatchHeader) -> bool:
        """Is this a batch of records whose transaction was aborted?"""
        assert not header.is_control, f"control batch at {header.base_offset}"
        if not header.is_transactional:
            return False
        self._advance(header.last_offset)
        producer_id = header.producer_id
        entry = self._open_aborted.get(producer_id)
        if entry is not None and entry.first_offset <= header.base_offset <= entry.last_offset:
            self._seen_aborted.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def end(self, header: BatchHeader, *, commit: bool) -> tuple[bool, AbortedTransaction | None]:
        """At a marker: did we see batches of its transaction? And the entry for the index."""
        self._advance(header.last_offset)
        producer_id = header.producer_id
        if commit:
            seen = producer_id in self._committed
            self._committed.discard(producer_id)
            return seen, None
        entry = self._open_aborted.pop(producer_id, None)
        seen = producer_id in self._seen_aborted
        self._seen_aborted.discard(producer_id)
        return seen, entry if seen else None

    def _advance(self, offset: int) -> None:
        while self._ahead and self._ahead[-1].first_offset <= offset:
            entry = self._ahead.pop()
            self._open_aborted[entry.producer_id] = entry


def clean_batch(batch: ScannedBatch, rules: CleaningRules, walk: TransactionWalk) -> Cleaned:
    """One batch after this pass."""
    header = batch.header
    if header.is_control:
        return clean_control(batch, rules, walk)
    if walk.is_aborted(header):
        return without_records(header, rules)
    records = list(iter_records(batch.buffer, batch.start, header))
    gone = has_passed_horizon(header, rules.trusted_now_ms)
    kept = [record for record in records if keeps_record(record, rules.keys, gone)]
    if not kept:
        return without_records(header, rules)
    horizon_ms = None
    if not header.has_delete_horizon and any(record.value is None for record in kept):
        horizon_ms = rules.delete_horizon_ms
    if len(kept) == len(records) and horizon_ms is None:
        return Cleaned(bytes_of(batch), changed=False)
    return Cleaned(rewrite(header, kept, delete_horizon_ms=horizon_ms), changed=True)


def clean_control(batch: ScannedBatch, rules: CleaningRules, walk: TransactionWalk) -> Cleaned:
    """Only markers of transactions ever go; other control batches are not ours to judge."""
    header = batch.header
    marker = end_txn_marker(batch.buffer, batch.start)
    if marker is None:
        if header.record_count == 0:
            return without_records(header, rules)
        return Cleaned(bytes_of(batch), changed=False)
    seen, aborted = walk.end(header, commit=marker.commit)
    if seen:
        return Cleaned(bytes_of(batch), changed=False, aborted=aborted)
    if has_passed_horizon(header, rules.trusted_now_ms):
        return without_records(header, rules)
    if header.has_delete_horizon:
        return Cleaned(bytes_of(batch), changed=False)
    record = iter_records(batch.buffer, batch.start, header)
    return Cleaned(rewrite(header, record, delete_horizon_ms=rules.delete_horizon_ms), changed=True)


def keeps_record(record: Record, keys: KeyOffsets, tombstones_go: bool) -> bool:
    """Records behind what this pass knows of are for the next one."""
    if record.offset > keys.latest_offset:
        return True
    if record.key is None or is_superseded(record.key, record.offset, keys):
        return False
    return record.value is not None or not tombstones_go


def is_superseded(key: bytes, offset: int, keys: KeyOffsets) -> bool:
    return offset < keys.newest(key)


def has_passed_horizon(header: BatchHeader, now_ms: int) -> bool:
    """KIP-534: the time from which tombstones of this batch may go stands in the batch."""
    return header.has_delete_horizon and header.base_timestamp <= now_ms


def without_records(header: BatchHeader, rules: CleaningRules) -> Cleaned:
    """Nothing of it is left, or its header alone."""
    if not is_last_of_producer(header, rules.producers):
        return Cleaned(None, changed=True)
    return Cleaned(rewrite(header, ()), changed=header.record_count > 0)


def is_last_of_producer(header: BatchHeader, producers: Mapping[int, ProducerEntry]) -> bool:
    """Is the state of a producer rebuilt from this batch? Of one that has written nothing in
    its epoch, from its markers."""
    entry = producers.get(header.producer_id)
    if entry is None:
        return False
    if entry.batches:
        return not header.is_control and header.last_offset == entry.batches[-1].last_offset
    return header.is_control and header.producer_epoch == entry.producer_epoch


def bytes_of(batch: ScannedBatch) -> memoryview:
    return memoryview(batch.buffer)[batch.start : batch.start + batch.header.size_bytes]
