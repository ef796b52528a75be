"""What a segment must know of the batches in one append."""

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.wire.records import BatchHeader


class AppendInfo(NamedTuple):
    first_offset: int
    last_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int
    size_bytes: int


def info_of(header: BatchHeader) -> AppendInfo:
    """An append of one batch."""
    return AppendInfo(
        header.base_offset,
        header.last_offset,
        header.max_timestamp,
        header.offset_of_max_timestamp,
        header.size_bytes,
    )


def info_of_all(headers: Sequence[BatchHeader]) -> AppendInfo:
    """An append of several batches at once."""
    largest = headers[0]
    size_bytes = 0
    for header in headers:
        size_bytes += header.size_bytes
        if header.max_timestamp > largest.max_timestamp:
            largest = header
    return AppendInfo(
        headers[0].base_offset,
        headers[-1].last_offset,
        largest.max_timestamp,
        largest.offset_of_max_timestamp,
        size_bytes,
    )
