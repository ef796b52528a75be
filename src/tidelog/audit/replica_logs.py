"""The copies of a partition on the disks of its replicas, compared byte by byte.

Only the files are looked at, so the nodes may run or lie dead. Below the high watermark all copies
have the same batches, from where the shortest of them begins. A copy that ends earlier lags.
"""

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

IDENTICAL, LAGGING, DIVERGING = "identical", "lagging", "diverging"

_PREFIX = struct.Struct(">qi")
"""Base offset, and the bytes that follow these two."""
_LAST_OFFSET_DELTA = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT = 23
_SMALLEST_BATCH = 61


class Batch(NamedTuple):
    base_offset: int
    next_offset: int
    data: bytes


class Comparison(NamedTuple):
    partition: str
    verdict: str
    ends: dict[int, int]
    """By node: the offset after its last whole batch."""
    first_difference: int | None
    """The offset from which on two copies are not the same, if they diverge."""
    last_difference: int | None
    """The offset before which they are the same again, or the high watermark."""
    compared_bytes: int
    """Of one copy."""

    @property
    def identical(self) -> bool:
        return self.verdict == IDENTICAL

    def told(self) -> str:
        """The verdict in words."""
        if self.verdict == DIVERGING:
            return f"{self.partition}: copies differ from offset {self.first_difference} on"
        ends = ", ".join(f"node {node} ends at {end}" for node, end in sorted(self.ends.items()))
        return f"{self.partition}: {self.verdict}, {ends}"


def compare(directories: Mapping[int, Path], partition: str, high_watermark: int) -> Comparison:
    """Of `topic-0`, in the data directories of these nodes, below the high watermark."""
    copies = {
        node: list(batches_of(directory / partition)) for node, directory in directories.items()
    }
    ends = {node: each[-1].next_offset if each else 0 for node, each in copies.items()}
    start = max((each[0].base_offset for each in copies.values() if each), default=0)
    common_end = min(high_watermark, *ends.values())
    held = [
        {
            batch.base_offset: batch
            for batch in each
            if start <= batch.base_offset and batch.next_offset <= common_end
        }
        for each in copies.values()
    ]
    differing = [
        batch
        for base_offset in sorted(set().union(*held))
        for batch in _differing([copy.get(base_offset) for copy in held])
    ]
    up_to_here = LAGGING if common_end < high_watermark else IDENTICAL
    return Comparison(
        partition,
        DIVERGING if differing else up_to_here,
        ends,
        min((batch.base_offset for batch in differing), default=None),
        max((batch.next_offset for batch in differing), default=None),
        sum(len(batch.data) for batch in held[0].values()) if held else 0,
    )


def batches_of(directory: Path) -> Iterator[Batch]:
    """Every whole batch of a log, in the order of its segments. A torn tail ends it."""
    for segment in sorted(directory.glob("*.log")):
        data = segment.read_bytes()
        at = 0
        while at + _SMALLEST_BATCH <= len(data):
            base_offset, length = _PREFIX.unpack_from(data, at)
            end = at + _PREFIX.size + length
            if length < _SMALLEST_BATCH - _PREFIX.size or end > len(data):
                break
            (delta,) = _LAST_OFFSET_DELTA.unpack_from(data, at + _LAST_OFFSET_DELTA_AT)
            yield Batch(base_offset, base_offset + delta + 1, data[at:end])
            at = end


def records_only_in(directory: Path, other: Path) -> int:
    """How many offsets from the first difference on a log holds that another does not."""
    theirs = {batch.base_offset: batch for batch in batches_of(other)}
    parted = [each for each in batches_of(directory) if theirs.get(each.base_offset) != each]
    return parted[-1].next_offset - parted[0].base_offset if parted else 0


def _differing(copies: list[Batch | None]) -> list[Batch]:
    if all(copy == copies[0] for copy in copies):
        return []
    return [copy for copy in copies if copy is not None]
