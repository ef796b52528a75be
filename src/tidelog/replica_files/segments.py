"""The segment files of a replica and their indexes, as `storage` writes them."""

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidelog.replica_files.read_only_disk import ReadOnlyDisk
from tidelog.storage.errors import CorruptFile
from tidelog.storage.indexes import AbortedTransaction, OffsetIndex, TimeIndex, TransactionIndex
from tidelog.storage.lookups import aborted_in
from tidelog.storage.segment import LOG_SUFFIX

_DIGITS = 20
_MOST_LISTINGS = 5


class SegmentFile(NamedTuple):
    base_offset: int
    path: str
    size_bytes: int
    """When it was listed; the last one of a log grows."""


def segments_of(directory: str) -> list[SegmentFile]:
    """By offset. Empty if the replica is gone. Listing takes its time, and names may go and come
    meanwhile: two lists with the same names are one that was true."""
    found = _list(directory)
    for _ in range(_MOST_LISTINGS):
        again = _list(directory)
        if [each.base_offset for each in again] == [each.base_offset for each in found]:
            break
        found = again
    return found


def _list(directory: str) -> list[SegmentFile]:
    found = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                digits = entry.name.removesuffix(LOG_SUFFIX)
                if len(digits) != _DIGITS or not (digits.isascii() and digits.isdigit()):
                    continue
                if len(entry.name) != _DIGITS + len(LOG_SUFFIX):
                    continue
                try:
                    size_bytes = entry.stat().st_size
                except FileNotFoundError:
                    continue  # retention was here between the two
                found.append(SegmentFile(int(digits), entry.path, size_bytes))
    except FileNotFoundError:
        return []
    return sorted(found)


def offset_index(segment: SegmentFile) -> OffsetIndex:
    """Empty where it cannot be one of this segment: then reading begins at the start."""
    disk, name = _place(segment, OffsetIndex.SUFFIX)
    index = OffsetIndex(disk, name, segment.base_offset)
    try:
        index.load(segment.size_bytes)
    except (CorruptFile, OSError):
        return OffsetIndex(disk, name, segment.base_offset)
    return index


def time_index(segment: SegmentFile) -> TimeIndex:
    """Empty where it makes no sense."""
    disk, name = _place(segment, TimeIndex.SUFFIX)
    index = TimeIndex(disk, name, segment.base_offset)
    try:
        index.load()
    except (CorruptFile, OSError):
        return TimeIndex(disk, name, segment.base_offset)
    return index


def aborted_transactions(
    segments: Sequence[SegmentFile], from_offset: int, to_offset: int
) -> list[AbortedTransaction]:
    """Those with a record in this range. CorruptFile if an index cannot be read: nobody can say
    then which records count."""
    return aborted_in(_transaction_indexes(segments, from_offset), from_offset, to_offset)


def _transaction_indexes(
    segments: Sequence[SegmentFile], from_offset: int
) -> Iterator[TransactionIndex]:
    """From the segment with this offset on, loaded as they are asked for."""
    for number, segment in enumerate(segments):
        if number + 1 < len(segments) and segments[number + 1].base_offset <= from_offset:
            continue
        index = TransactionIndex(*_place(segment, TransactionIndex.SUFFIX), segment.base_offset)
        index.load()
        yield index


def _place(segment: SegmentFile, suffix: str) -> tuple[ReadOnlyDisk, str]:
    directory, name = os.path.split(segment.path)
    return ReadOnlyDisk(directory), name.removesuffix(LOG_SUFFIX) + suffix
