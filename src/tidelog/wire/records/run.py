"""Several small batches taken for one, where nobody needs to tell them apart.

A follower gets the batches of many producers in one answer. Looked at one by one they cost more
than writing them does.
"""

import struct

from tidelog.wire.records.chain import follow
from tidelog.wire.records.header import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    MAX_INT64,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    Buffer,
)

_FIRST = struct.Struct(">q4xi")
"""Base offset and leader epoch."""
_EACH = struct.Struct(">8xi11xi8xqq")
"""Length, last offset delta, largest timestamp and producer id."""


class BatchRun(BatchHeader):
    """Whole, intact batches without a gap between them, of one leader epoch, none of a producer
    with an id. It has the offsets and the size of all of them; a checksum it has not."""

    newest_at: int
    batches: list[tuple[int, int, int]]
    """Size, last offset and largest timestamp of each: an index points at batches, not at runs."""

    @property
    def offset_of_max_timestamp(self) -> int:
        return self.newest_at


def read_run(region: Buffer) -> BatchRun | None:
    """All that is in the region, after everything about it was checked. None if it is not simply
    such a run: who looks at its batches finds out what it is."""
    size_bytes = len(region)
    if size_bytes < HEADER_SIZE:
        return None
    base_offset, leader_epoch = _FIRST.unpack_from(region)
    end, next_offset = follow(region, base_offset, MAX_INT64, leader_epoch)
    if end != size_bytes or leader_epoch < 0:
        return None
    position, offset, newest, newest_at = 0, base_offset, -MAX_INT64, base_offset
    batches: list[tuple[int, int, int]] = []
    while position < size_bytes:
        length, delta, timestamp, producer_id = _EACH.unpack_from(region, position)
        if producer_id >= 0:
            return None
        offset += delta + 1
        if timestamp > newest:
            newest, newest_at = timestamp, offset - 1
        length += LENGTH_OVERHEAD
        batches.append((length, offset - 1, timestamp))
        position += length
    count = next_offset - base_offset
    run = BatchRun(
        base_offset,
        size_bytes - LENGTH_OVERHEAD,
        leader_epoch,
        MAGIC,
        0,
        0,
        count - 1,
        newest,
        newest,
        NO_PRODUCER_ID,
        NO_PRODUCER_EPOCH,
        NO_SEQUENCE,
        count,
    )
    run.newest_at, run.batches = newest_at, batches
    return run
