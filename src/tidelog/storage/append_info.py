"""What a segment must know of the batches in one append."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidelog.wire.records import BatchHeader
from tidelog.wire.records.run import BatchRun


class AppendInfo(NamedTuple):
    first_offset: int
    last_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int
    size_bytes: int
    headers: Sequence[BatchHeader]

    @property
    def is_one_batch(self) -> bool:
        return len(self.headers) == 1 and not isinstance(self.headers[0], BatchRun)

    def batches(self) -> Iterator[tuple[int, int, int]]:
        """Size, last offset and largest timestamp of every single batch."""
        for header in self.headers:
            if isinstance(header, BatchRun):
                yield from header.batches
            else:
                yield header.size_bytes, header.last_offset, header.max_timestamp


def info_of(header: BatchHeader) -> AppendInfo:
    """An append of one batch, or of one run."""
    return AppendInfo(
        header.base_offset,
        header.last_offset,
        header.max_timestamp,
        header.offset_of_max_timestamp,
        header.size_bytes,
        (header,),
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
        headers,
    )


class IndexEntry(NamedTuple):
    """What both indexes say of one batch. `timestamp` is the largest so far."""

    last_offset: int
    position: int
    timestamp: int
    offset_of_timestamp: int


def index_entries(
    info: AppendInfo, position: int, since: int, interval: int, newest: tuple[int, int]
) -> tuple[list[IndexEntry], int]:
    """The entries that an append at `position` adds, and how many bytes come after the last.

    Batches that are written together are indexed as if each had come alone: Kafka's tools expect
    the last offset of one batch where that batch begins (`DumpLogSegments --verify-index-only`).
    `since` bytes were appended since the entry before.
    """
    entries = []
    for size_bytes, last_offset, timestamp in info.batches():
        if timestamp > newest[0]:
            newest = timestamp, last_offset
        if since > interval:
            entries.append(IndexEntry(last_offset, position, *newest))
            since = 0
        since += size_bytes
        position += size_bytes
    return entries, since


def entries_due(info: AppendInfo, since: int, interval: int) -> int:
    """How many entries an append adds at most."""
    if info.is_one_batch:
        return int(since > interval)
    return (since + info.size_bytes) // (interval + 1)
