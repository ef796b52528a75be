"""Walking over the batches in a segment file.

Offsets, length, epoch and magic of a batch lie outside its checksum, so the checksum alone
does not prove a batch. The chain does: each batch must begin where the one before it ends,
both in bytes and in offsets.

Compaction leaves gaps in the offsets, and only there is the chain weaker. In a log that may
have gaps a batch may begin behind the end of the one before it, never before that. What is
still found:
- everything a crash can do. A base offset of which only a part was written is a smaller one,
  because what was not written is zero: the batch then goes backward.
- a base offset that rots to a larger one, unless a gap follows it: it runs into the next
  batch, and a read looks at the next one before it serves a batch. A load that is told to
  repair cuts the log before the rotten batch, not before the next one.
- records missing at the end of a segment. Compaction keeps the last batch of what it cleans,
  empty if need be, so that a segment always ends where the next one begins.
What is not found is a base offset that rots to a larger one within a gap, or at the very end
of the log, and not beyond the start of another leader epoch.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tidelog.host.ports import DiskFile
from tidelog.storage.errors import CorruptSegment, OffsetsGoBack
from tidelog.wire.records import (
    HEADER_SIZE,
    BatchHeader,
    InvalidBatch,
    TruncatedBatch,
    read_header,
)

CHUNK_BYTES = 1 << 20
LARGEST_RELATIVE_OFFSET = (1 << 31) - 1

IntactCheck = Callable[[bytes, int, BatchHeader], bool]


class ScannedBatch(NamedTuple):
    """A batch in a file: its header, and its bytes from `start` in `buffer`."""

    position: int
    header: BatchHeader
    buffer: bytes
    start: int


class ScanRange(NamedTuple):
    """What to walk over: a file, by name for messages, and two positions in it."""

    file: DiskFile
    path: str
    base_offset: int
    start: int
    end: int


def scan(
    where: ScanRange,
    *,
    next_offset: int | None = None,
    intact: IntactCheck | None = None,
    gaps: bool = False,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[ScannedBatch]:
    """Every batch up to the end. CorruptSegment at the first byte that is not one.

    `next_offset` is the offset the first batch must have, None if that is not known. With
    `gaps` it and all others may have a larger one: the log has been compacted.
    """
    file, path, base_offset, position, end = where
    buffer, origin = b"", position

    def fault(reason: str, kind: type[CorruptSegment] = CorruptSegment) -> CorruptSegment:
        offset = base_offset if next_offset is None else next_offset
        return kind(path, position=position, offset=offset, reason=reason)

    while position < end:
        start = position - origin
        if len(buffer) - start < HEADER_SIZE:
            buffer, origin, start = (
                file.read(position, min(chunk_bytes, end - position)),
                position,
                0,
            )
        try:
            header = read_header(buffer, start)
        except TruncatedBatch as error:
            raise fault(f"torn: {error}") from None
        except InvalidBatch as error:
            raise fault(str(error)) from None
        size = header.batch_length + 12
        if position + size > end:
            raise fault(f"torn: {size} bytes promised, {end - position} are there")
        if start + size > len(buffer):
            wanted = min(max(size, chunk_bytes), end - position)
            buffer, origin, start = file.read(position, wanted), position, 0
            if len(buffer) < size:
                raise fault(f"torn: {size} bytes promised, {len(buffer)} are there")
        is_whole = intact is None or intact(buffer, start, header)
        if not (follows(header, next_offset, gaps=gaps) and fits_segment(header, base_offset)):
            kind = OffsetsGoBack if gaps and is_whole else CorruptSegment
            raise fault(f"offset {header.base_offset} does not continue the segment", kind)
        if not is_whole:
            raise fault("the checksum does not match")
        yield ScannedBatch(position, header, buffer, start)
        position += size
        next_offset = header.base_offset + header.last_offset_delta + 1


def follows(header: BatchHeader, next_offset: int | None, *, gaps: bool) -> bool:
    """Does this batch continue what ends at `next_offset`, without a gap unless there may be?"""
    if next_offset is None or header.base_offset == next_offset:
        return True
    return gaps and header.base_offset > next_offset


def fits_segment(header: BatchHeader, base_offset: int) -> bool:
    """Can the indexes of a segment with this base express its offsets?"""
    return (
        0
        <= header.base_offset - base_offset
        <= (LARGEST_RELATIVE_OFFSET - header.last_offset_delta)
    )
