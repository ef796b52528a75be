"""Walking over the batches of a segment file, some MiB at a time.

Bytes are read with `pread` into memory that is used again. A mapping would save the copy, but a
file that is cut while it is mapped kills the process that looks at it.
"""

import os
from collections.abc import Iterator
from enum import StrEnum
from types import TracebackType
from typing import NamedTuple, Self

from tidelog.replica_files.segments import SegmentFile, offset_index
from tidelog.wire.kernel import BatchTable, scan_region

REGION_BYTES = 4 << 20
LARGEST_BATCH_BYTES = 256 << 20
"""A length beyond that is not believed: nobody sends such a batch."""
_LENGTH_AT, _LENGTH_END = 8, 12
_PROBE_BYTES = 64 << 10
_MOST_CANDIDATES = 1_000


class Stopped(StrEnum):
    """Why a walk went no further."""

    END = "end"
    """The file ends with a whole batch."""
    TORN = "torn"
    """The last batch is not all there."""
    GARBAGE = "garbage"
    """What follows is no batch."""


class Region(NamedTuple):
    """Whole batches, good until the walk goes on: then the memory is used again."""

    data: memoryview
    table: BatchTable
    position: int
    """In the file. Positions in the table count from here."""


class SegmentWalk:
    """`with SegmentWalk(path) as walk: for region in walk.regions(): …`

    Afterwards `position` is where the last whole batch ends, and `stopped` says why there.
    """

    __slots__ = ("_check_crc", "_descriptor", "_memory", "bytes_read", "position", "stopped")

    def __init__(
        self,
        path: str,
        *,
        position: int = 0,
        check_crc: bool = True,
        region_bytes: int = REGION_BYTES,
    ) -> None:
        """FileNotFoundError if the segment is gone."""
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._memory = bytearray(region_bytes)
        self._check_crc = check_crc
        self.position = position
        self.stopped = Stopped.END
        self.bytes_read = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._descriptor)

    def regions(self, hint: int | None = None) -> Iterator[Region]:
        """Up to the end. Who needs nothing behind the position `hint` stops there by himself;
        no more is read than up to it until he goes on."""
        usual = wanted = len(self._memory)
        while True:
            if hint is not None and self.position < hint:
                wanted = min(usual, hint - self.position)
            data = self._read(wanted)
            table, garbage = scan_region(data, check_crc=self._check_crc)
            if table.rows:
                yield Region(data[: table.end], table, self.position)
                self.position += table.end
            if garbage:
                self.stopped = Stopped.GARBAGE
                return
            if len(data) < wanted:
                self.stopped = Stopped.TORN if table.end < len(data) else Stopped.END
                return
            wanted = usual
            if not table.rows:
                wanted, hint = _size_of_batch(data), None
                if wanted > LARGEST_BATCH_BYTES:
                    self.stopped = Stopped.GARBAGE
                    return

    def _read(self, wanted: int) -> memoryview:
        if wanted > len(self._memory):
            self._memory = bytearray(wanted)
        view = memoryview(self._memory)[:wanted]
        got = 0
        while got < wanted:
            more = os.preadv(self._descriptor, [view[got:]], self.position + got)
            if not more:
                break
            got += more
        self.bytes_read += got
        return view[:got]


def _size_of_batch(data: memoryview) -> int:
    """Of the one that begins here and is larger than what was read."""
    if len(data) < _LENGTH_END:
        return _LENGTH_END
    length = int.from_bytes(data[_LENGTH_AT:_LENGTH_END], "big", signed=True)
    return max(length + _LENGTH_END, len(data) + 1)


def regions_from(
    segment: SegmentFile, offset: int, *, region_bytes: int = REGION_BYTES
) -> Iterator[Region]:
    """From a batch at or before `offset` on, without checksums. An index that leads elsewhere is
    left aside."""
    position = offset_index(segment).position_for(offset)
    if position and not _leads_to(segment, position, offset):
        position = 0
    with SegmentWalk(
        segment.path, position=position, check_crc=False, region_bytes=region_bytes
    ) as walk:
        yield from walk.regions()


def _leads_to(segment: SegmentFile, position: int, offset: int) -> bool:
    """Is there an intact batch that begins at or before this offset?"""
    with SegmentWalk(segment.path, position=position, region_bytes=_PROBE_BYTES) as walk:
        region = next(walk.regions(), None)
        if region is None or not region.table.column("crc_ok")[0]:
            return False
        return bool(region.table.column("base_offset")[0] <= offset)


def resume_after(segment: SegmentFile, position: int) -> int | None:
    """Where a walk that found no batch at `position` can go on: at the next entry of the index
    that leads to an intact batch. None if there is none in this segment."""
    entries = [entry for entry in offset_index(segment).entries() if entry[1] > position]
    for offset, candidate in entries[:_MOST_CANDIDATES]:
        if _leads_to(segment, candidate, offset):
            return candidate
    return None
