"""Whether the records of a batch are what its header says: the check that every produced batch
goes through (Kafka's LogValidator makes the same).

The usual case, and the cheap half of it: nothing is copied and no object is made for a record.
Whoever wants to know why a batch is not good reads it with `iter_records`. Compiled where that
was built, as in `wire.kernel`; this is the twin.
"""

import os
from collections.abc import Callable

from tidelog.wire.records.body import DecodeLimits, iter_records
from tidelog.wire.records.errors import InvalidBatch
from tidelog.wire.records.header import (
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    MAX_INT64,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
)

Walk = Callable[[Buffer, int, int, int, int], tuple[int, int, int] | None]

NO_EARLIEST = MAX_INT64


def walk_in_python(
    plain: Buffer, start: int, record_count: int, base_timestamp: int, max_items: int
) -> tuple[int, int, int] | None:
    """What `_native.contract` says."""
    size_bytes = len(plain) - start
    if start < 0 or size_bytes < 0 or record_count < 0:
        return None
    around = header_around(size_bytes, record_count, base_timestamp)
    limits = DecodeLimits(max_decompressed_bytes=size_bytes, max_items=max_items)
    without_key, earliest, latest = 0, NO_EARLIEST, NO_TIMESTAMP
    try:
        # Deltas that rise and stay below the count are those that count up.
        for record in iter_records(plain, start - HEADER_SIZE, around, limits):
            without_key += record.key is None
            latest = max(latest, record.timestamp)
            if record.timestamp != NO_TIMESTAMP:
                earliest = min(earliest, record.timestamp)
    except InvalidBatch:
        return None
    return without_key, earliest, latest


def header_around(size_bytes: int, record_count: int, base_timestamp: int) -> BatchHeader:
    """The header of a batch without compression whose records these could be."""
    return BatchHeader(
        base_offset=0,
        batch_length=size_bytes + HEADER_SIZE - LENGTH_OVERHEAD,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=max(record_count - 1, 0),
        base_timestamp=base_timestamp,
        max_timestamp=NO_TIMESTAMP,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=record_count,
    )


def is_compiled() -> bool:
    """Whether `walk` costs nanoseconds per record, not microseconds."""
    return walk is not walk_in_python


def compiled() -> Walk | None:
    """The compiled one, if the package was built with a compiler."""
    try:
        from tidelog._native.walk import walk  # noqa: PLC0415 - may be absent
    except ImportError:
        return None
    return walk


walk: Walk = (None if os.environ.get("TIDELOG_PURE") == "1" else compiled()) or walk_in_python
