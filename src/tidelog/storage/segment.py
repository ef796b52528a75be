"""A segment: one file of batches and its three indexes (replication.md §2.2).

Every shrink of the file is synced before the file may grow again. Otherwise, after a crash,
batches that had been cut could stand behind newly written ones and seem to continue them.

What is read is checked on every read (`serving`). A batch that fails is never served; the caller
gets CorruptSegment with the first offset that is lost. What this process appended, and so checked,
is sent without reading it while it has not been seen to leave memory (ADR 0029).
"""

from collections.abc import Iterator, Sequence

from tidelog.core.replication.epochs import EpochHistory
from tidelog.host.file_range import LEAST_BYTES as LEAST_SENT_BYTES
from tidelog.host.ports import Buffer, FileRange
from tidelog.storage.append_info import AppendInfo, entries_due, index_entries, info_of
from tidelog.storage.atomic_file import join
from tidelog.storage.errors import CorruptFile, CorruptSegment, StorageError
from tidelog.storage.indexes import OffsetIndex, TimeIndex, TransactionIndex, are_full
from tidelog.storage.kept_bytes import KeptBytes
from tidelog.storage.pending_sync import FileSync
from tidelog.storage.repairs import INDEX_MADE_ANEW, Repair
from tidelog.storage.scan import (
    LARGEST_RELATIVE_OFFSET,
    IntactCheck,
    ScannedBatch,
    ScanRange,
    scan,
)
from tidelog.storage.segment_place import SegmentPlace
from tidelog.storage.serving import Expected, Served, served
from tidelog.wire.records import HEADER_SIZE, BatchHeader, check_crc
from tidelog.wire.records.header import LENGTH_OVERHEAD

LOG_SUFFIX = ".log"
INDEX_SUFFIXES = (OffsetIndex.SUFFIX, TimeIndex.SUFFIX, TransactionIndex.SUFFIX)
DELETED_SUFFIX = ".deleted"
NO_TIMESTAMP = -1
_LOCATE_CHUNK_BYTES = 16 << 10
_LEAST_READ_BYTES = 4 << 10
_WORTH_CUTTING_BYTES = 64 << 10
_KNOWN_PLACES = 32
_WALKED_BYTES = 4 << 20
"""How far it may be from an entry of the index to the batch that is looked for."""


def file_name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


class Segment:
    """One file of batches. Owned by a Log; only the last segment of a log is appended to."""

    __slots__ = (
        "_bytes_since_entry",
        "_changes",
        "_first_timestamp",
        "_indexes_loaded",
        "_known",
        "_max_timestamp",
        "_offset_of_max_timestamp",
        "_suffix",
        "_synced_changes",
        "base_offset",
        "config",
        "file",
        "gaps",
        "kept",
        "next_offset",
        "offsets",
        "path",
        "place",
        "size",
        "times",
        "transactions",
    )

    def __init__(
        self, place: SegmentPlace, base_offset: int, *, gaps: bool = False, suffix: str = ""
    ) -> None:
        """Opens what is on disk; `create` makes a new one. With `gaps` its offsets may have
        some; `suffix` is for one that is not part of a log yet."""
        self._suffix = suffix
        self.gaps = gaps
        self.place = place
        self.config = place.config
        self.base_offset = base_offset
        self.path = self._path(LOG_SUFFIX)
        disk = place.disk
        self.file = disk.open(self.path, create=True)
        self.size = self.file.size()
        self.next_offset = base_offset
        together = place.config.index_write_bytes
        path = self._path(OffsetIndex.SUFFIX)
        self.offsets = OffsetIndex(disk, path, base_offset, together_bytes=together)
        path = self._path(TimeIndex.SUFFIX)
        self.times = TimeIndex(disk, path, base_offset, together_bytes=together)
        self.transactions = TransactionIndex(disk, self._path(TransactionIndex.SUFFIX), base_offset)
        self._indexes_loaded = False
        self._max_timestamp: int | None = None
        self._offset_of_max_timestamp = base_offset
        self._first_timestamp: int | None = None
        self._bytes_since_entry = 0
        self._known: dict[int, int] = {}
        self.kept = KeptBytes(self.file, self.size)
        self._changes = self._synced_changes = 0

    @classmethod
    def create(
        cls, place: SegmentPlace, base_offset: int, *, gaps: bool = False, suffix: str = ""
    ) -> "Segment":
        """Empty, whatever lay under these names before. The names are not durable yet."""
        segment = cls(place, base_offset, gaps=gaps, suffix=suffix)
        if segment.size:
            segment._shrink_file(0)
        segment.forget_indexes()
        segment.mark_unsynced()
        return segment

    # Appending

    def append(self, data: Buffer | Sequence[Buffer], info: AppendInfo) -> None:
        """Write whole batches at the end, or leave the segment as it was and raise."""
        position = self.size
        assert info.first_offset == self.next_offset or (
            self.gaps and info.first_offset > self.next_offset
        ), f"{self.path}: append of {info.first_offset} at {self.next_offset}"
        try:
            self.kept.append_at(position)
            self.file.write(position, data)
            self._changes += 1
            self._index_append(position, info)
        except StorageError:
            self._undo_append(position)
            raise
        self.size = position + info.size_bytes
        self.next_offset = info.last_offset + 1
        self._remember(info.first_offset, position)

    def _remember(self, offset: int, position: int) -> None:
        """The batch at this position begins with this offset. Most reads begin where the one
        before ended, or at a recent append: no walk from an index."""
        known = self._known
        if offset not in known:
            known[offset] = position
            if len(known) > _KNOWN_PLACES:
                del known[next(iter(known))]

    def _index_append(self, position: int, info: AppendInfo) -> None:
        largest = self.max_timestamp
        if info.max_timestamp > largest:
            largest, offset_of_largest = info.max_timestamp, info.offset_of_max_timestamp
        else:
            offset_of_largest = self._offset_of_max_timestamp
        since, interval = self._bytes_since_entry, self.config.index_interval_bytes
        if since + info.size_bytes > interval:
            newest = self.max_timestamp, self._offset_of_max_timestamp
            entries, since = index_entries(info, position, since, interval, newest)
            for entry in entries:
                self.offsets.add(entry.last_offset, entry.position)
                self.times.add(entry.timestamp, entry.offset_of_timestamp)
        else:
            since += info.size_bytes
        # From here on nothing can fail: what we remember changes only with what we wrote.
        self._bytes_since_entry = since
        self._max_timestamp, self._offset_of_max_timestamp = largest, offset_of_largest
        if position == 0:
            self._first_timestamp = info.max_timestamp

    def _undo_append(self, position: int) -> None:
        """A full device: take back the part of the append that was written."""
        self._shrink_file(position)
        self.offsets.cut_to(self.next_offset)
        self.times.cut_to(self.next_offset)

    def must_roll_before(self, info: AppendInfo) -> bool:
        """Replication.md §2.2: by size, by age in record time, by full index, by offset range."""
        if self.size == 0:
            return False
        config = self.config
        return (
            self.size > config.segment_bytes - info.size_bytes
            or info.max_timestamp - self.first_timestamp > config.roll_after_ms(self.path)
            or info.last_offset - self.base_offset > LARGEST_RELATIVE_OFFSET
            or are_full(self.offsets, self.times, self._entries_due(info), config)
        )

    def _entries_due(self, info: AppendInfo) -> int:
        return entries_due(info, self._bytes_since_entry, self.config.index_interval_bytes)

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of any batch in here, -1 if there is none."""
        if self._max_timestamp is None:
            self.load_times()
        assert self._max_timestamp is not None, self.path
        return self._max_timestamp

    @property
    def first_timestamp(self) -> int:
        """The timestamp the age of the segment counts from."""
        if self._first_timestamp is None:
            first = next(iter(self.batches()), None)
            self._first_timestamp = first.header.max_timestamp if first else NO_TIMESTAMP
        return self._first_timestamp

    # Durability

    def sync(self) -> None:
        """The batches are on disk afterwards. Indexes are rebuilt after a crash instead."""
        if self._changes > self._synced_changes:
            self.file.sync()
            self._synced_changes = self._changes

    def start_sync(self) -> list[FileSync]:
        """The same in two steps. What is appended from now on is not covered."""
        if self._changes == self._synced_changes:
            return []
        return [FileSync(self.file.start_sync(), self._note_synced, self._changes)]

    def _note_synced(self, changes: int) -> None:
        self._synced_changes = max(self._synced_changes, changes)

    def complete(self) -> None:
        """No more appends: all entries are in their files. Sealing it needs no space then."""
        self._complete_times()
        self.flush_indexes()

    def seal(self) -> None:
        """No more appends: complete the time index, put everything on disk."""
        self._complete_times()
        self.sync()
        for index in (self.offsets, self.times, self.transactions):
            index.file.sync()
            index.file.close()

    def start_seal(self) -> list[FileSync]:
        """The same in two steps."""
        self._complete_times()
        syncs = self.start_sync()
        for index in (self.offsets, self.times, self.transactions):
            sync = index.file.start_sync()
            if sync is not None:
                syncs.append(sync)
            index.file.close()
        return syncs

    def _complete_times(self) -> None:
        self.load_indexes()
        if self.size:
            self.times.add(self.max_timestamp, self._offset_of_max_timestamp)

    def mark_unsynced(self) -> None:
        """A former process wrote it, and nobody knows what of it reached the disk."""
        self._changes += 1

    # Reading

    def read(
        self, from_offset: int, to_offset: int, *, max_bytes: int, epochs: EpochHistory
    ) -> memoryview:
        """Whole, checked batches from the one that contains `from_offset`."""
        known = self._known.get(from_offset)
        if known is not None and not self.gaps:  # where there may be, a walk sees more
            expected = self._expected(known, from_offset, to_offset, epochs)
            records = self._read_known(expected, max_bytes)
            if records is not None:
                return records
        found = self.locate(from_offset)
        if found is None:
            return memoryview(b"")
        position = found.position
        wanted = self._whole(position, max_bytes, found.header.size_bytes)
        end = found.start + wanted
        if end <= len(found.buffer):  # short reads are in what was read to find their place
            data = found.buffer[found.start : end]
        else:
            data = self._bytes_at(position, wanted)
        expected = self._expected(position, found.header.base_offset, to_offset, epochs)
        run = served(data, expected)
        if run.reason is not None:
            lost = self.end_before(found) if self.gaps else run.next_offset
            raise CorruptSegment(self.path, position=position, offset=lost, reason=run.reason)
        self._remember(found.header.base_offset, position)
        return self._handed_over(data, position, run)

    def read_to_send(
        self, from_offset: int, to_offset: int, *, max_bytes: int, epochs: EpochHistory
    ) -> memoryview | FileRange:
        """The same, or where it lies in the file if it need not be read to be sure of it."""
        position = self._known.get(from_offset, self.size)
        left = self.size - position
        if left >= LEAST_SENT_BYTES and max_bytes >= LEAST_SENT_BYTES and not self.gaps:
            kept = self._kept_run(position, to_offset, max_bytes)
            if kept is not None:
                return kept
        return self.read(from_offset, to_offset, max_bytes=max_bytes, epochs=epochs)

    def _kept_run(self, position: int, to_offset: int, max_bytes: int) -> FileRange | None:
        """Whole batches from this position on, as this process appended them."""
        end = self._last_end(position, max_bytes)
        if end is None or not self.kept.look(position, end + HEADER_SIZE, self.size):
            return None
        next_offset = self.next_offset
        if end < self.size:
            next_offset = int.from_bytes(self.file.read(end, 8), "big")
        if next_offset > to_offset:
            return None
        self._remember(next_offset, end)
        return self.file.range_in_memory(position, end - position)

    def _read_known(self, expected: Expected, max_bytes: int) -> memoryview | None:
        """The same from a place we know. None if what is there is not what belongs there: who
        looks for it finds out what is wrong."""
        position = expected.position
        data = self._bytes_at(position, self._whole(position, max_bytes, _LEAST_READ_BYTES))
        first_bytes = int.from_bytes(data[8:12], "big") + LENGTH_OVERHEAD
        wanted = self._whole(position, max_bytes, first_bytes)
        if wanted > len(data):
            data = self._bytes_at(position, wanted)
        run = served(data if wanted == len(data) else memoryview(data)[:wanted], expected)
        return None if run.reason is not None else self._handed_over(data, position, run)

    def _bytes_at(self, position: int, size_bytes: int) -> bytes:
        if size_bytes >= LEAST_SENT_BYTES:  # perhaps not all of it will be checked
            self.kept.look(position, position + size_bytes, self.size)
        return self.file.read(position, size_bytes)

    def _whole(self, position: int, max_bytes: int, least_bytes: int) -> int:
        """How much to read: up to the end of a batch, where the index knows one. What is read of
        the next batch is read in vain, and large batches are large."""
        if max_bytes >= _WORTH_CUTTING_BYTES:
            end = self._last_end(position, max_bytes)
            if end is not None:
                max_bytes = end - position
        return min(max(max_bytes, least_bytes), self.size - position)

    def _last_end(self, position: int, max_bytes: int) -> int | None:
        """Of a batch in the second half of so many bytes, or of the segment if it comes first."""
        if self.size - position <= max_bytes:
            return self.size
        return self.offsets.last_position_within(position + max_bytes // 2, position + max_bytes)

    def _expected(
        self, position: int, next_offset: int, to_offset: int, epochs: EpochHistory
    ) -> Expected:
        overlaps = self._overlaps if self.gaps else None
        return Expected(position, next_offset, to_offset, epochs, overlaps)

    def _handed_over(self, data: bytes, position: int, run: Served) -> memoryview:
        size_bytes = run.size_bytes
        if size_bytes:
            self._remember(run.next_offset, position + size_bytes)
        if size_bytes < len(data) - len(data) // 4:
            data = data[:size_bytes]  # a view would keep what was read in vain as long as it lives
        return memoryview(data)[:size_bytes]

    def _overlaps(self, position: int, header: BatchHeader) -> bool:
        """Does this batch run into the next one, or out of the segment? Where there may be
        gaps, that is how a base offset that has rotted to a larger one shows."""
        end = position + header.size_bytes
        if end >= self.size:
            return header.next_offset != self.next_offset
        return header.next_offset > int.from_bytes(self.file.read(end, 8), "big")

    def locate(self, offset: int) -> ScannedBatch | None:
        """The batch that contains this offset, else the first one behind it; None at the end."""
        self.load_indexes()
        start = self.offsets.position_for(offset)
        try:
            found = self._walk_to(offset, start)
        except CorruptSegment:
            pass
        else:
            if found is None and offset >= self.next_offset:
                return None
            if found is not None and self._is_at(offset, found, start):
                return found
        # The index led astray, or the segment is bad: the segment itself decides. From a fresh
        # index the walk begins at a batch that was just checked, so what it reports is exact.
        self.rebuild_indexes()
        found = self._walk_to(offset, self.offsets.position_for(offset))
        if found is None:
            raise self._ends_early()
        self._note_index(f"it leads astray from offset {offset}")
        return found

    def _is_at(self, offset: int, found: ScannedBatch, start: int) -> bool:
        """Can it be the first batch that ends at or behind `offset`? If it begins behind it
        the offset is in a gap, and a batch before the gap was seen on the way."""
        if found.header.base_offset <= offset or start == 0:
            return True
        return self.gaps and found.position > start

    def end_before(self, found: ScannedBatch) -> int:
        """Where the batch in front of this one ends: the end of the segment without it."""
        end = self.base_offset
        for batch in self.batches(self.offsets.position_for(found.header.base_offset)):
            if batch.position >= found.position:
                break
            end = batch.header.next_offset
        return end

    def _ends_early(self) -> CorruptSegment:
        """Whole batches up to the end of the file, and yet fewer than there were."""
        end = self.base_offset
        for batch in self.batches(self.offsets.last_position()):
            end = batch.header.next_offset
        return CorruptSegment(
            self.path,
            position=self.size,
            offset=end,
            reason=f"the file ends before offset {self.next_offset}",
        )

    def batches_from(
        self, offset: int, *, intact: IntactCheck | None = None
    ) -> Iterator[ScannedBatch]:
        """Every batch from the one that contains `offset` on."""
        found = self.locate(offset)
        if found is None:
            return iter(())
        return self._walk(found.position, found.header.base_offset, intact=intact)

    def _walk_to(self, offset: int, start: int) -> ScannedBatch | None:
        for batch in self._walk(start, far_bytes=_WALKED_BYTES, chunk_bytes=_LOCATE_CHUNK_BYTES):
            if batch.header.last_offset >= offset:
                return batch
        return None

    def batches(
        self, start: int = 0, *, intact: IntactCheck | None = None
    ) -> Iterator[ScannedBatch]:
        """Walk over the segment from a position where a batch begins."""
        return self._walk(start, intact=intact)

    def _walk(
        self,
        start: int,
        next_offset: int | None = None,
        *,
        intact: IntactCheck | None = None,
        far_bytes: int = 1 << 62,
        chunk_bytes: int = 1 << 20,
    ) -> Iterator[ScannedBatch]:
        self.kept.look(start, start + far_bytes, self.size)
        where = ScanRange(self.file, self.path, self.base_offset, start, self.size)
        if start == 0:
            next_offset = self.base_offset
        return scan(
            where, next_offset=next_offset, intact=intact, gaps=self.gaps, chunk_bytes=chunk_bytes
        )

    # Shrinking

    def truncate_to(self, offset: int) -> int:
        """Cut the batch that contains `offset` and all behind it. The new end offset."""
        found = self.locate(offset)
        if found is None:
            return self.next_offset
        self.cut_at(found.position, self.end_before(found))
        return self.next_offset

    def cut_at(self, position: int, next_offset: int) -> None:
        """Keep the bytes before `position`, which hold the records before `next_offset`."""
        assert position <= self.size, f"{self.path}: cut at {position} of {self.size}"
        self._shrink_file(position)
        self.next_offset = next_offset
        self.load_indexes()
        for index in (self.offsets, self.times, self.transactions):
            index.cut_to(next_offset)
        if position == 0:
            self._first_timestamp = None
        self._bytes_since_entry = position - self.offsets.last_position()
        self.load_times()

    def _shrink_file(self, position: int) -> None:
        self.file.truncate(position)
        self.file.sync()
        self.size = position
        self.kept.cut(position)
        self._known.clear()

    # Indexes

    def load_indexes(self) -> None:
        """From their files when they make sense, else from the segment."""
        if self._indexes_loaded:
            return
        self._indexes_loaded = True
        try:
            self.offsets.load(self.size)
            self.times.load()
        except CorruptFile as error:
            self.place.repairs.append(Repair(error, INDEX_MADE_ANEW))
            self.rebuild_indexes()

    def _note_index(self, reason: str, suffix: str = OffsetIndex.SUFFIX) -> None:
        fault = CorruptFile(self._path(suffix), "byte 0", reason)
        self.place.repairs.append(Repair(fault, INDEX_MADE_ANEW))

    def load_times(self) -> None:
        """Largest timestamp: that of the last entry if the log confirms it, then any later one."""
        self.load_indexes()
        self._max_timestamp, self._offset_of_max_timestamp = NO_TIMESTAMP, self.base_offset
        last = self.times.last()
        start = self.offsets.position_for(last[1]) if last else 0
        if last is not None and not self._confirms(last, start):
            self._note_index(f"time {last[0]} is not at offset {last[1]}", TimeIndex.SUFFIX)
            self.rebuild_indexes()
            return
        try:
            for batch in self.batches(start):
                header = batch.header
                if header.max_timestamp > self._max_timestamp:
                    self._max_timestamp = header.max_timestamp
                    self._offset_of_max_timestamp = header.last_offset
        except CorruptSegment:
            return  # the age of what can be read; a read of the bad batch says so

    def _confirms(self, entry: tuple[int, int], start: int) -> bool:
        """A time index entry that lies would delete records too early."""
        timestamp, offset = entry
        try:
            found = self._walk_to(offset, start)
        except CorruptSegment:
            return False
        return found is not None and (
            found.header.max_timestamp == timestamp and found.header.last_offset == offset
        )

    def find_end(self) -> None:
        """After an orderly stop: the end offset, from the last index entry but one. Each batch
        on the way is checked, and has one in front of it to be checked against."""
        self.load_indexes()
        next_offset = self.base_offset
        for batch in self.batches(self.offsets.position_before_last(), intact=check_crc):
            next_offset = batch.header.next_offset
        self.next_offset = next_offset
        self._bytes_since_entry = self.size - self.offsets.last_position()
        self.load_times()

    def forget_indexes(self) -> None:
        """Empty ones; the caller fills them by walking over the segment, or has nothing."""
        self.offsets.reset()
        self.times.reset()
        self.transactions.reset()
        self._restart_summary()

    def rebuild_indexes(self) -> None:
        """Offset and time index from the batches, as far as they can be walked over."""
        self.offsets.reset()
        self.times.reset()
        self._restart_summary()
        try:
            for batch in self.batches():
                self._index_append(batch.position, info_of(batch.header))
        except CorruptSegment:
            pass  # reads up to there still work; a read of the bad batch says so
        self.flush_indexes()  # it may never be sealed again

    def flush_indexes(self) -> None:
        """Write the entries that wait. They are not on disk before it is sealed."""
        self.offsets.file.flush()
        self.times.file.flush()

    def _restart_summary(self) -> None:
        self._indexes_loaded = True
        self._max_timestamp, self._offset_of_max_timestamp = NO_TIMESTAMP, self.base_offset
        self._bytes_since_entry = 0

    def index_batch(self, position: int, header: BatchHeader) -> None:
        """Note a batch that is already in the file."""
        self._index_append(position, info_of(header))
        self.next_offset = header.next_offset

    # Files

    def close(self) -> None:
        self.file.close()
        for index in (self.offsets, self.times, self.transactions):
            index.file.close()

    def mark_deleted(self) -> list[str]:
        """Take the names away; the bytes go later. The paths to remove then."""
        self.close()
        deleted = []
        for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES):
            path = self._path(suffix)
            if self.place.disk.exists(path):
                self.place.disk.rename(path, path + DELETED_SUFFIX)
                deleted.append(path + DELETED_SUFFIX)
        return deleted

    def _path(self, suffix: str) -> str:
        return join(self.place.directory, file_name(self.base_offset, suffix) + self._suffix)
