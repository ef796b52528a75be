"""Which of the bytes that were read from a segment may be served.

What is read is checked on every read: checksum, offset, leader epoch. It is the only check that
also sees a page that went bad after it was last read. A batch that fails is never served.
"""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.core.replication.epochs import EpochHistory
from tidelog.core.types import NO_EPOCH
from tidelog.storage.scan import follows
from tidelog.wire.records import (
    HEADER_SIZE,
    BatchHeader,
    InvalidBatch,
    check_crc,
    read_header,
)
from tidelog.wire.records.chain import follow


class Expected(NamedTuple):
    """What the bytes at this position of a file should be: batches from `next_offset` on, wanted
    below `to_offset`."""

    position: int
    next_offset: int
    to_offset: int
    epochs: EpochHistory
    overlaps: Callable[[int, BatchHeader], bool] | None
    """Where there may be gaps: does the batch at this position run into the next one?"""


class Served(NamedTuple):
    """So many bytes are whole batches that may be served, and the offset behind them. `reason`
    says what is wrong with the very first one, if something is."""

    size_bytes: int
    next_offset: int
    reason: str | None = None


def served(data: bytes | memoryview, expected: Expected) -> Served:
    """Batches up to the first one that is not whole, not wanted or not what was appended: the
    next read begins with that one, and says so."""
    end, next_offset = 0, expected.next_offset
    if expected.overlaps is None:
        epoch, epoch_end = expected.epochs.span_at(next_offset)
        if epoch != NO_EPOCH:
            limit = min(expected.to_offset, epoch_end)
            end, next_offset = follow(data, next_offset, limit, epoch)
    while end < len(data):
        if end > 0 and len(data) - end < HEADER_SIZE:
            break
        try:
            header = read_header(data, end)
            if end > 0 and _ends_run(header, end, len(data), expected.to_offset):
                break
            reason = _why_not(data, end, header, expected._replace(next_offset=next_offset))
        except InvalidBatch as error:
            reason = str(error)
        if reason is not None:
            return Served(end, next_offset, reason if end == 0 else None)
        if header.last_offset >= expected.to_offset:
            break  # checked first: a bad batch must not pass for the end of the range
        end += header.size_bytes
        next_offset = header.next_offset
    return Served(end, next_offset)


def _ends_run(header: BatchHeader, position: int, size_bytes: int, to_offset: int) -> bool:
    """It is not whole, or not wanted."""
    return position + header.size_bytes > size_bytes or header.last_offset >= to_offset


def _why_not(
    data: bytes | memoryview, position: int, header: BatchHeader, expected: Expected
) -> str | None:
    """The reason to withhold this batch, None if it is what was once appended."""
    gaps = expected.overlaps is not None
    if not follows(header, expected.next_offset, gaps=gaps):
        return f"offset {header.base_offset} where {expected.next_offset} belongs"
    epoch = expected.epochs.epoch_at(header.last_offset)
    if epoch not in (header.leader_epoch, NO_EPOCH):
        return f"leader epoch {header.leader_epoch} where {epoch} belongs"
    if not check_crc(data, position, header):
        return "the checksum does not match"
    wanted, place = header.last_offset < expected.to_offset, expected.position + position
    if wanted and expected.overlaps is not None and expected.overlaps(place, header):
        return f"offset {header.last_offset} is also in the next batch"
    return None
