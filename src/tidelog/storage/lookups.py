"""Questions about a log that are not "the batches from this offset"."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tidelog.storage.errors import CorruptSegment
from tidelog.storage.indexes import AbortedTransaction, TransactionIndex
from tidelog.storage.segment import NO_TIMESTAMP, Segment
from tidelog.wire.records import check_crc, iter_records


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


def find_timestamp(
    segments: Sequence[Segment], timestamp_ms: int, log_start: int
) -> TimestampOffset | None:
    """The first record at or behind the log start that is not older than this."""
    for segment in segments:
        if segment.size == 0 or segment.max_timestamp < timestamp_ms:
            continue
        segment.load_indexes()
        first = max(segment.times.offset_for(timestamp_ms), log_start)
        for batch in segment.batches_from(first, intact=check_crc):
            header = batch.header
            if header.max_timestamp < timestamp_ms or header.last_offset < log_start:
                continue
            for record in iter_records(batch.buffer, batch.start, header):
                if record.timestamp >= timestamp_ms and record.offset >= log_start:
                    return TimestampOffset(record.timestamp, record.offset, header.leader_epoch)
    return None


def cut_position(segment: Segment, offset: int) -> tuple[int, int]:
    """Where to cut so that this record goes, and the end offset then. A follower gets rid of a
    batch that cannot be read by cutting there, to fetch it again. CorruptSegment if an earlier
    one is bad: others may count on what would go with it."""
    try:
        found = segment.locate(offset)
    except CorruptSegment as error:
        if error.offset < offset:
            raise
        return error.position, error.offset
    assert found is not None, f"{segment.path}: {offset} not below {segment.next_offset}"
    return found.position, segment.end_before(found)


def aborted_in(
    indexes: Iterable[TransactionIndex], from_offset: int, to_offset: int
) -> list[AbortedTransaction]:
    """From the index of the segment with `from_offset` on. A marker may lie segments behind the
    records it aborts; an entry whose last stable offset is at or behind the range says that no
    later marker can concern it."""
    found: list[AbortedTransaction] = []
    for index in indexes:
        for entry in index.aborted:
            if entry.first_offset < to_offset and entry.last_offset >= from_offset:
                found.append(entry)
            if entry.last_stable_offset >= to_offset:
                return found
    return found


def newest_in(segments: Sequence[Segment]) -> int:
    """The largest timestamp, NO_TIMESTAMP if there is none."""
    for segment in reversed(segments):
        if segment.size:
            return segment.max_timestamp
    return NO_TIMESTAMP
