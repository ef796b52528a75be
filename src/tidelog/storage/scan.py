"""Walking over the batches in a segment file.

Offsets, length, epoch and magic of a batch lie outside its checksum, so the checksum alone
does not prove a batch. The chain does: each batch must begin where the one before it ends,
both in bytes and in offsets. Tidelog does not compact, so there are no gaps to allow for.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tidelog.host.ports import DiskFile
from tidelog.storage.errors import CorruptSegment
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
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[ScannedBatch]:
    """Every batch up to the end. CorruptSegment at the first byte that is not one.

    `next_offset` is the offset the first batch must have, None if that is not known.
    """
    file, path, base_offset, position, end = where
    buffer, origin = b"", position

    def fault(reason: str) -> CorruptSegment:
        offset = base_offset if next_offset is None else next_offset
        return CorruptSegment(path, position=position, offset=offset, reason=reason)

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
        if not follows(header, next_offset, base_offset):
            raise fault(f"offset {header.base_offset} does not continue the segment")
        if intact is not None and not intact(buffer, start, header):
            raise fault("the checksum does not match")
        yield ScannedBatch(position, header, buffer, start)
        position += size
        next_offset = header.base_offset + header.last_offset_delta + 1


def follows(header: BatchHeader, next_offset: int | None, base_offset: int) -> bool:
    """Does this batch continue the segment without a gap, and fit in its relative offsets?"""
    if next_offset is not None and header.base_offset != next_offset:
        return False
    return (
        0
        <= header.base_offset - base_offset
        <= (LARGEST_RELATIVE_OFFSET - header.last_offset_delta)
    )
