"""Compaction: old records of a key make room for the newest one (`cleanup.policy=compact`).

A log is a clean part, where every key has one record at most, and a dirty part behind the
clean point. One pass notes the newest offset of every key in the dirty part, then copies all
segments up to there without what is superseded, and moves the clean point. The last segment
is never touched, nor anything that could still be taken back: uncommitted records, open
transactions, and records that are not synced. An older value goes only when the newer one is
committed and on this disk.

Segments that have become small are put together, up to `segment.bytes`. A cleaned segment
ends where the last one of its group ended, so that segments still follow one another without
a gap: the last batch of a group stays, empty if need be. A follower then also finds its way
to the end of a log whose last records are all gone.

The work is done in slices, and the log may be used between two of them. If a segment that is
being cleaned changes meanwhile, by truncation or retention, the pass is given up.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import NamedTuple

from tidelog.host.ports import Buffer, Disk
from tidelog.storage.append_info import info_of_all
from tidelog.storage.checkpoints import PartitionName
from tidelog.storage.compaction_rules import (
    Cleaned,
    CleaningRules,
    TransactionWalk,
    clean_batch,
)
from tidelog.storage.config import NEVER_MS, LogConfig
from tidelog.storage.errors import CorruptSegment
from tidelog.storage.indexes import AbortedTransaction, OffsetIndex, TimeIndex
from tidelog.storage.key_offsets import KeyOffsets
from tidelog.storage.log import Log
from tidelog.storage.scan import LARGEST_RELATIVE_OFFSET, ScannedBatch
from tidelog.storage.segment import NO_TIMESTAMP, Segment
from tidelog.storage.swap import CLEANED_SUFFIX, discard_cleaned, prepare_swap
from tidelog.wire.records import BatchHeader, check_crc, iter_records, read_header, rewrite

SLICE_BYTES = 1 << 20
DEDUPE_BUFFER_BYTES = 128 << 20
"""`log.cleaner.dedupe.buffer.size`"""
SYNCS_COUNT_BYTES = 256 << 10
"""A swap reads nothing and syncs about a dozen times, three or four times in one piece. Each piece
counts as a whole slice of reading."""
MOST_TOGETHER = 32
"""A swap renames the files of all segments of a group but one, in one piece."""


class CompactionProgress(NamedTuple):
    """What a slice of compaction was about. `clean_point` moves when a log is finished."""

    partition: PartitionName
    finished: bool
    clean_point: int


class CompactionPlan(NamedTuple):
    """What a pass over a log would clean: all these segments, the dirty ones for their keys."""

    first_dirty: int
    sources: tuple[Segment, ...]
    clean_bytes: int
    dirty_bytes: int
    overdue: bool

    @property
    def dirt(self) -> float:
        """The dirty part of what could be cleaned, between 0 and 1."""
        return self.dirty_bytes / max(self.clean_bytes + self.dirty_bytes, 1)


class CompactionTimes(NamedTuple):
    """Two clocks, so that a jump of one deletes nothing early: a delete horizon is counted
    from the later one and compared with the earlier one (see `retention`)."""

    wall_ms: int
    trusted_now_ms: int


def survey(log: Log, *, clean_point: int, high_watermark: int, now_ms: int) -> CompactionPlan:
    """What could be cleaned now. A clean point outside the log is not one of this log."""
    first = log.segments[0].base_offset
    first_dirty = clean_point if first <= clean_point <= log.log_end_offset else first
    limit = first_uncleanable(log, high_watermark)
    sources: list[Segment] = []
    clean_bytes = dirty_bytes = 0
    oldest_ms = NO_TIMESTAMP
    for segment in log.segments[:-1]:
        is_dirty = segment.next_offset > first_dirty
        if segment.next_offset > limit or (is_dirty and is_young(segment, log.config, now_ms)):
            break
        sources.append(segment)
        if not is_dirty:
            clean_bytes += segment.size
            continue
        dirty_bytes += segment.size
        if oldest_ms == NO_TIMESTAMP:
            oldest_ms = segment.first_timestamp
    max_lag_ms = log.config.max_compaction_lag_ms
    overdue = max_lag_ms < NEVER_MS and 0 <= oldest_ms < now_ms - max_lag_ms
    return CompactionPlan(first_dirty, tuple(sources), clean_bytes, dirty_bytes, overdue)


def first_uncleanable(log: Log, high_watermark: int) -> int:
    """Nothing from here on may be a reason to drop something older: it is not committed, or
    its transaction is open, or a crash could take it."""
    unstable = log.producers.first_unstable_offset(high_watermark)
    stable = high_watermark if unstable is None else min(unstable, high_watermark)
    return min(stable, log.recovery_point)


def is_young(segment: Segment, config: LogConfig, now_ms: int) -> bool:
    """`min.compaction.lag.ms`: consumers are promised to see every record for that long."""
    lag_ms = config.min_compaction_lag_ms
    return lag_ms > 0 and segment.max_timestamp > now_ms - lag_ms


def is_due(plan: CompactionPlan, config: LogConfig) -> bool:
    """Dirty enough, or dirty for too long (KIP-354)."""
    if plan.dirty_bytes == 0:
        return False
    return plan.overdue or plan.dirt > config.min_cleanable_dirty_ratio


def groups_of(segments: Sequence[Segment], config: LogConfig) -> list[list[Segment]]:
    """Neighbours that fit into one segment and its indexes, even if nothing of them goes; not
    many at once. The next pass puts together what this one has left."""
    groups: list[list[Segment]] = []
    for segment in segments:
        if groups and fits_together([*groups[-1], segment], config):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


def fits_together(group: Sequence[Segment], config: LogConfig) -> bool:
    if len(group) > MOST_TOGETHER:
        return False
    for segment in group:
        segment.load_indexes()
    offset_entries = sum(len(segment.offsets) + 1 for segment in group)
    time_entries = sum(len(segment.times) + 1 for segment in group) + 1
    return (
        sum(segment.size for segment in group) <= config.segment_bytes
        and offset_entries * OffsetIndex.ENTRY_SIZE <= config.index_size_max_bytes
        and time_entries * TimeIndex.ENTRY_SIZE <= config.index_size_max_bytes
        and group[-1].next_offset - 1 - group[0].base_offset <= LARGEST_RELATIVE_OFFSET
    )


class Compaction:
    """One pass over one log. Owned by a LogDirectory, which gives it slices of time."""

    __slots__ = (
        "_aborted",
        "_disk",
        "_keys",
        "_log",
        "_plan",
        "_rules",
        "_sizes",
        "_steps",
        "_times",
        "abandoned",
        "clean_point",
    )

    def __init__(
        self,
        disk: Disk,
        log: Log,
        plan: CompactionPlan,
        *,
        times: CompactionTimes,
        dedupe_buffer_bytes: int = DEDUPE_BUFFER_BYTES,
    ) -> None:
        assert plan.dirty_bytes > 0, f"{log}: nothing is dirty"
        self._disk = disk
        self._log = log
        self._plan = plan
        self._times = times
        self._keys = KeyOffsets(dedupe_buffer_bytes, plan.first_dirty - 1)
        self._aborted: Sequence[AbortedTransaction] = log.aborted_transactions(
            plan.sources[0].base_offset, plan.sources[-1].next_offset
        )
        self._rules = CleaningRules(
            self._keys,
            {entry.producer_id: entry for entry in log.producers.entries()},
            times.trusted_now_ms,
            times.wall_ms + log.config.delete_retention_ms,
        )
        self._sizes = {segment.base_offset: (segment, segment.size) for segment in plan.sources}
        self._steps = self._run()
        self.abandoned = False
        self.clean_point = plan.first_dirty

    def step(self, budget_bytes: int) -> bool:
        """Read about this much. True when there is nothing left to do."""
        if self._sources_changed():
            self.abandon()
            return True
        for read_bytes in self._steps:
            budget_bytes -= read_bytes
            if budget_bytes <= 0:
                return False
        return True

    def abandon(self) -> None:
        """Stop where it is; what was replaced so far is complete in itself."""
        self._steps.close()
        self.abandoned = True

    def _sources_changed(self) -> bool:
        current = {segment.base_offset: segment for segment in self._log.segments}
        return any(
            current.get(base) is not segment or segment.size != size
            for base, (segment, size) in self._sizes.items()
        )

    def _run(self) -> Generator[int, None, None]:
        yield from self._collect_keys()
        clean_point = self._keys.latest_offset + 1
        self._log.allow_gaps()
        walk = TransactionWalk(self._aborted)
        sources = [s for s in self._plan.sources if s.base_offset < clean_point]
        for group in groups_of(sources, self._log.config):
            yield from self._clean_group(group, walk)
        self.clean_point = clean_point

    def _collect_keys(self) -> Iterator[int]:
        """The newest offset of each key in the dirty part, or in as much of it as fits."""
        first_dirty, keys = self._plan.first_dirty, self._keys
        walk = TransactionWalk(self._aborted)
        for segment in self._plan.sources:
            if segment.next_offset <= first_dirty:
                continue
            start = max(first_dirty, segment.base_offset)
            for batch in up_to_the_end(segment, segment.batches_from(start, intact=check_crc)):
                yield batch.header.size_bytes
                if not collect_batch(batch, keys, walk):
                    return
                keys.latest_offset = max(keys.latest_offset, batch.header.last_offset)

    def _clean_group(self, group: Sequence[Segment], walk: TransactionWalk) -> Iterator[int]:
        """Copy what survives of these segments, and put the copy in their place."""
        log, base = self._log, group[0].base_offset
        writer = CleanedWriter(log, base)
        replaced = False
        try:
            for segment in group:
                for batch in up_to_the_end(segment, segment.batches(intact=check_crc)):
                    yield batch.header.size_bytes
                    cleaned = clean_batch(batch, self._rules, walk)
                    if batch.header.next_offset == group[-1].next_offset:
                        cleaned = anchored(batch.header, cleaned)
                    writer.take(cleaned)
            writer.flush()
            if writer.changed or len(group) > 1:
                log.store_epochs()
                yield SYNCS_COUNT_BYTES
                for _ in prepare_swap(self._disk, log.directory, writer.segment):
                    yield SYNCS_COUNT_BYTES
                for segment in group:
                    del self._sizes[segment.base_offset]
                log.replace_segments(group, writer.segment, now_ms=self._times.trusted_now_ms)
                replaced = True
                yield SYNCS_COUNT_BYTES
        finally:
            if not replaced:
                writer.segment.close()
                discard_cleaned(self._disk, log.directory, base)


def up_to_the_end(segment: Segment, batches: Iterable[ScannedBatch]) -> Iterator[ScannedBatch]:
    """These batches, the last of which ends the segment. CorruptSegment if it does not: where
    gaps are allowed, only the end shows that the base offset of the last batch has rotted."""
    end = segment.base_offset
    for batch in batches:
        if batch.header.next_offset > segment.next_offset:
            lost = segment.end_before(batch)
            reason = f"offset {batch.header.last_offset} lies behind the segment"
            raise CorruptSegment(segment.path, position=batch.position, offset=lost, reason=reason)
        yield batch
        end = batch.header.next_offset
    if end != segment.next_offset:
        reason = f"it ends at {end} and not at {segment.next_offset}"
        raise CorruptSegment(segment.path, position=segment.size, offset=end, reason=reason)


def collect_batch(batch: ScannedBatch, keys: KeyOffsets, walk: TransactionWalk) -> bool:
    """Note the keys of a batch. False if they do not all fit: the next pass begins there.
    A record that was rolled back supersedes nothing."""
    header = batch.header
    if header.is_control or walk.is_aborted(header):
        return True
    for record in iter_records(batch.buffer, batch.start, header):
        if record.offset <= keys.latest_offset or record.key is None:
            continue
        if not keys.put(record.key, record.offset):
            return False
    return True


def anchored(header: BatchHeader, cleaned: Cleaned) -> Cleaned:
    """The last batch of a group keeps its place: the segment ends where the next one begins."""
    if cleaned.data is not None:
        return cleaned
    return cleaned._replace(data=rewrite(header, ()), changed=header.record_count > 0)


class CleanedWriter:
    """The file that will take the place of a group. Batches are written a few at a time, with
    one index entry for each write."""

    __slots__ = ("_headers", "_interval_bytes", "_pieces", "_size_bytes", "changed", "segment")

    def __init__(self, log: Log, base_offset: int) -> None:
        self.segment = Segment.create(log.place, base_offset, gaps=True, suffix=CLEANED_SUFFIX)
        self.segment.transactions.file.create()
        self.changed = False
        self._interval_bytes = log.config.index_interval_bytes
        self._pieces: list[Buffer] = []
        self._headers: list[BatchHeader] = []
        self._size_bytes = 0

    def take(self, cleaned: Cleaned) -> None:
        self.changed |= cleaned.changed
        if cleaned.aborted is not None:
            self.segment.transactions.add(cleaned.aborted)
        if cleaned.data is None:
            return
        self._pieces.append(cleaned.data)
        self._headers.append(read_header(cleaned.data))
        self._size_bytes += len(cleaned.data)
        if self._size_bytes > self._interval_bytes:
            self.flush()

    def flush(self) -> None:
        if self._headers:
            self.segment.append(self._pieces, info_of_all(self._headers))
            self._pieces, self._headers, self._size_bytes = [], [], 0
