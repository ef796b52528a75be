"""The three indexes of a segment, in Kafka's formats (replication.md §2.2).

They have no checksum and need none: everything in them follows from the segment. Entries are
kept in memory as arrays for lookup and never preallocated in the file. Those of offsets and times
are written some together: after a crash the index of the segment that was appended to is made
anew, so only a sync has to find all of them there. A file that is not strictly increasing raises
CorruptFile, and its segment rebuilds it.
"""

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from operator import lt
from typing import NamedTuple

from tidelog.host.ports import Disk, DiskFile
from tidelog.storage.atomic_file import discard, read_file
from tidelog.storage.config import LogConfig
from tidelog.storage.errors import CorruptFile, StorageError
from tidelog.storage.pending_sync import FileSync

_TIME_ENTRY = struct.Struct(">qi")
_OFFSET_ENTRY = struct.Struct(">ii")
_TRANSACTION_ENTRY = struct.Struct(">hqqqq")
_TRANSACTION_VERSION = 0


class IndexFile:
    """The file behind an index: opened when something must be written, closed on roll.

    Entries wait in memory until there are `together_bytes` of them.
    """

    __slots__ = (
        "_changes",
        "_disk",
        "_file",
        "_synced_changes",
        "_together_bytes",
        "_waiting",
        "path",
        "size",
    )

    def __init__(self, disk: Disk, path: str, *, together_bytes: int = 1) -> None:
        self._disk = disk
        self._file: DiskFile | None = None
        self._changes = self._synced_changes = 0
        self._together_bytes = together_bytes
        self._waiting = bytearray()
        self.path = path
        self.size = 0
        """With the entries that wait."""

    @property
    def waiting_bytes(self) -> int:
        """Of entries that are not in the file yet."""
        return len(self._waiting)

    def create(self) -> None:
        """Empty. Nothing of an earlier file by this name may show through."""
        self.close()
        self._file = self._disk.open(self.path, create=True)
        if self._file.size():
            self._file.truncate(0)
        self._waiting.clear()
        self.size = 0
        self._changes += 1

    def load(self, entry_size: int) -> bytes:
        content = read_file(self._disk, self.path) or b""
        if len(content) % entry_size:
            raise CorruptFile(
                self.path,
                f"byte {len(content) - len(content) % entry_size}",
                f"{len(content)} bytes are not a multiple of {entry_size}",
            )
        self.size = len(content)
        return content

    def last_number(self, entry_size: int) -> int:
        """The last four bytes of the last whole entry in the file, as a number; 0 without one."""
        try:
            file = self._disk.open(self.path)
        except FileNotFoundError:
            return 0
        try:
            end = file.size() // entry_size * entry_size
            return int.from_bytes(file.read(end - 4, 4), "big") if end else 0
        finally:
            file.close()

    def append(self, entry: bytes) -> None:
        self._waiting += entry
        if len(self._waiting) >= self._together_bytes:
            try:
                self._write(self.size + len(entry))
            except StorageError:
                del self._waiting[-len(entry) :]
                raise
        self.size += len(entry)
        self._changes += 1

    def flush(self) -> None:
        """Write what waits. It is not on disk before a sync."""
        if self._waiting:
            self._write(self.size)

    def _write(self, end: int) -> None:
        file, start = self._opened(), end - len(self._waiting)
        try:
            file.write(start, self._waiting)
        except StorageError:
            file.truncate(start)  # a full device: no part of an entry may stay
            raise
        self._waiting = bytearray()

    def cut(self, size: int) -> None:
        assert size <= self.size, f"{self.path}: cut from {self.size} to {size}"
        written = self.size - self.waiting_bytes
        del self._waiting[max(0, size - written) :]
        if size < written:
            self._opened().truncate(size)
        self.size = size
        self._changes += 1

    def sync(self) -> None:
        if self._changes > self._synced_changes:
            self.flush()
            self._opened().sync()
            self._synced_changes = self._changes

    def start_sync(self) -> FileSync | None:
        """None if there is nothing to sync."""
        if self._changes == self._synced_changes:
            return None
        self.flush()
        return FileSync(self._opened().start_sync(), self._note_synced, self._changes)

    def _note_synced(self, changes: int) -> None:
        self._synced_changes = max(self._synced_changes, changes)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def remove(self) -> None:
        self.close()
        discard(self._disk, self.path)
        self._waiting.clear()
        self.size = 0
        self._synced_changes = self._changes

    def _opened(self) -> DiskFile:
        if self._file is None:
            self._file = self._disk.open(self.path, create=True)
        return self._file


class OffsetIndex:
    """Offset → position in the segment, for about every 4096th byte."""

    SUFFIX = ".index"
    ENTRY_SIZE = 8
    __slots__ = ("_offsets", "_positions", "base_offset", "file")

    def __init__(self, disk: Disk, path: str, base_offset: int, *, together_bytes: int = 1) -> None:
        self.file = IndexFile(disk, path, together_bytes=together_bytes)
        self.base_offset = base_offset
        self._offsets = array("i")
        self._positions = array("i")

    def __len__(self) -> int:
        return len(self._offsets)

    def load(self, segment_size: int) -> None:
        """Take over what is on disk, if it can be an index of a segment of this size."""
        both = array("i")
        both.frombytes(self.file.load(self.ENTRY_SIZE))
        if sys.byteorder == "little":
            both.byteswap()
        offsets, positions = both[0::2], both[1::2]
        _require_increasing(self.file.path, self.ENTRY_SIZE, offsets, "offsets")
        _require_increasing(self.file.path, self.ENTRY_SIZE, positions, "positions")
        if offsets and (offsets[0] < 0 or positions[0] < 0 or positions[-1] >= segment_size):
            raise CorruptFile(self.file.path, "byte 0", f"points out of {segment_size} bytes")
        self._offsets, self._positions = offsets, positions

    def reset(self) -> None:
        del self._offsets[:], self._positions[:]
        self.file.create()

    def add(self, offset: int, position: int) -> None:
        """`offset` is the last one of an append whose first byte is at `position`."""
        relative = offset - self.base_offset
        assert not self._offsets or relative > self._offsets[-1], (
            f"{self.file.path}: offset {offset} after {self.base_offset + self._offsets[-1]}"
        )
        self.file.append(_OFFSET_ENTRY.pack(relative, position))
        self._offsets.append(relative)
        self._positions.append(position)

    def position_for(self, offset: int) -> int:
        """Where to begin looking for this offset: at the segment's start, or at a batch that
        ends before it, so that the batch found has one in front of it to be checked against."""
        found = bisect_left(self._offsets, offset - self.base_offset)
        return self._positions[found - 1] if found else 0

    def position_behind(self, offset: int) -> int | None:
        """A batch begins here, and `offset` lies before it; None if no entry says so."""
        found = bisect_left(self._offsets, offset - self.base_offset) + 1
        return self._positions[found] if found < len(self._positions) else None

    def offset_near(self, position: int) -> int | None:
        """The first offset of a batch that begins at or shortly behind `position`; None behind
        the last entry."""
        found = bisect_left(self._positions, position)
        return self.base_offset + self._offsets[found] + 1 if found < len(self._offsets) else None

    def last_position_within(self, start: int, end: int) -> int | None:
        """A batch begins here, behind `start` and not behind `end`: the last that is known."""
        found = bisect_right(self._positions, end)
        position = self._positions[found - 1] if found else start
        return position if position > start else None

    def last_position(self) -> int:
        return self._positions[-1] if self._positions else 0

    def stored_last_position(self) -> int:
        """From the end of the file, without loading all of it; 0 if there is no such entry."""
        return self.file.last_number(self.ENTRY_SIZE)

    def position_before_last(self) -> int:
        """Of the last entry but one, or the segment's start."""
        return self._positions[-2] if len(self._positions) > 1 else 0

    def cut_to(self, next_offset: int) -> None:
        """Forget entries for records that are gone."""
        kept = bisect_left(self._offsets, next_offset - self.base_offset)
        del self._offsets[kept:], self._positions[kept:]
        self.file.cut(kept * self.ENTRY_SIZE)

    def entries(self) -> list[tuple[int, int]]:
        base = self.base_offset
        return [(base + o, p) for o, p in zip(self._offsets, self._positions, strict=True)]


class TimeIndex:
    """Largest timestamp so far → offset of the batch that brought it."""

    SUFFIX = ".timeindex"
    ENTRY_SIZE = 12
    __slots__ = ("_offsets", "_timestamps", "base_offset", "file")

    def __init__(self, disk: Disk, path: str, base_offset: int, *, together_bytes: int = 1) -> None:
        self.file = IndexFile(disk, path, together_bytes=together_bytes)
        self.base_offset = base_offset
        self._timestamps = array("q")
        self._offsets = array("i")

    def __len__(self) -> int:
        return len(self._timestamps)

    def load(self) -> None:
        content = self.file.load(self.ENTRY_SIZE)
        timestamps, offsets = array("q"), array("i")
        for timestamp, relative in _TIME_ENTRY.iter_unpack(content):
            timestamps.append(timestamp)
            offsets.append(relative)
        _require_increasing(self.file.path, self.ENTRY_SIZE, timestamps, "timestamps")
        _require_increasing(self.file.path, self.ENTRY_SIZE, offsets, "offsets")
        if offsets and offsets[0] < 0:
            raise CorruptFile(self.file.path, "byte 0", "an offset before the segment")
        self._timestamps, self._offsets = timestamps, offsets

    def reset(self) -> None:
        del self._timestamps[:], self._offsets[:]
        self.file.create()

    def add(self, timestamp: int, offset: int) -> None:
        """Nothing happens unless the timestamp is larger than the last one."""
        if timestamp < 0 or (self._timestamps and timestamp <= self._timestamps[-1]):
            return
        relative = offset - self.base_offset
        assert not self._offsets or relative > self._offsets[-1], (
            f"{self.file.path}: offset {offset} after {self.base_offset + self._offsets[-1]}"
        )
        self.file.append(_TIME_ENTRY.pack(timestamp, relative))
        self._timestamps.append(timestamp)
        self._offsets.append(relative)

    def offset_for(self, timestamp: int) -> int:
        """Every batch before the one with this offset is older than `timestamp`."""
        found = bisect_right(self._timestamps, timestamp)
        return self.base_offset + (self._offsets[found - 1] if found else 0)

    def last(self) -> tuple[int, int] | None:
        """Largest timestamp, and the offset of the batch that brought it."""
        if not self._timestamps:
            return None
        return self._timestamps[-1], self.base_offset + self._offsets[-1]

    def cut_to(self, next_offset: int) -> None:
        """Forget entries for records that are gone."""
        kept = bisect_left(self._offsets, next_offset - self.base_offset)
        del self._timestamps[kept:], self._offsets[kept:]
        self.file.cut(kept * self.ENTRY_SIZE)

    def entries(self) -> list[tuple[int, int]]:
        base = self.base_offset
        return [(t, base + o) for t, o in zip(self._timestamps, self._offsets, strict=True)]


def are_full(offsets: OffsetIndex, times: TimeIndex, due: int, config: LogConfig) -> bool:
    """There is no place for the entries that are due, or for the last one of the times."""
    return due > 0 and (
        (len(offsets) + due) * OffsetIndex.ENTRY_SIZE > config.index_size_max_bytes
        or (len(times) + due + 1) * TimeIndex.ENTRY_SIZE > config.index_size_max_bytes
    )


class AbortedTransaction(NamedTuple):
    """A transaction that was rolled back; its marker is at `last_offset`. No transaction that
    is still open at that point began before `last_stable_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The aborted transactions whose marker lies in this segment. Most segments have no file."""

    SUFFIX = ".txnindex"
    ENTRY_SIZE = 34
    __slots__ = ("aborted", "base_offset", "file")

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        self.file = IndexFile(disk, path)
        self.base_offset = base_offset
        self.aborted: list[AbortedTransaction] = []

    def load(self) -> None:
        content = self.file.load(self.ENTRY_SIZE)
        aborted: list[AbortedTransaction] = []
        previous = self.base_offset - 1
        for number, fields in enumerate(_TRANSACTION_ENTRY.iter_unpack(content)):
            entry = AbortedTransaction._make(fields[1:])
            where = f"byte {number * self.ENTRY_SIZE}"
            if fields[0] != _TRANSACTION_VERSION:
                raise CorruptFile(self.file.path, where, f"version {fields[0]}")
            if not (0 <= entry.first_offset < entry.last_offset and previous < entry.last_offset):
                raise CorruptFile(self.file.path, where, f"{entry} does not follow {previous}")
            previous = entry.last_offset
            aborted.append(entry)
        self.aborted = aborted

    def reset(self) -> None:
        self.aborted.clear()
        self.file.remove()

    def add(self, entry: AbortedTransaction) -> None:
        assert not self.aborted or entry.last_offset > self.aborted[-1].last_offset, (
            f"{self.file.path}: {entry} after {self.aborted[-1]}"
        )
        self.file.append(_TRANSACTION_ENTRY.pack(_TRANSACTION_VERSION, *entry))
        self.aborted.append(entry)

    def cut_to(self, next_offset: int) -> None:
        kept = sum(entry.last_offset < next_offset for entry in self.aborted)
        if kept < len(self.aborted):
            del self.aborted[kept:]
            self.file.cut(kept * self.ENTRY_SIZE)


def _require_increasing(path: str, entry_size: int, values: "array[int]", what: str) -> None:
    rest = memoryview(values)[1:]
    if not all(map(lt, values, rest)):
        bad = _first_index(map(lt, values, rest), lambda ordered: not ordered) + 1
        raise CorruptFile(path, f"byte {bad * entry_size}", f"{what} do not increase")


def _first_index(values: Iterable[bool], wanted: Callable[[bool], bool]) -> int:
    return next(index for index, value in enumerate(values) if wanted(value))
