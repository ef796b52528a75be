"""Copies of a partition on the disks of several brokers, compared byte for byte.

Segments may begin at different offsets on different brokers; batches may not differ at all: offset,
leader epoch, checksum and records are what the leader wrote.
"""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from tidelog.wire.records import iter_batches


class StoredBatch(NamedTuple):
    base_offset: int
    next_offset: int
    leader_epoch: int
    content: bytes


class Comparison(NamedTuple):
    partition: int
    compared_bytes: int
    """Of one copy."""
    below: int
    """The offset up to which they were compared."""
    differences: tuple[str, ...]

    @property
    def equal(self) -> bool:
        return not self.differences


def stored_batches(data: Path, topic: str, partition: int) -> Iterator[StoredBatch]:
    """Every whole batch of a partition in a broker's data directory, in order."""
    directory = data / f"{topic}-{partition}"
    for segment in sorted(directory.glob("*.log")):
        content = segment.read_bytes()
        for position, header in iter_batches(content):
            yield StoredBatch(
                header.base_offset,
                header.next_offset,
                header.leader_epoch,
                content[position : position + header.size_bytes],
            )


def log_end(data: Path, topic: str, partition: int) -> int:
    return max((each.next_offset for each in stored_batches(data, topic, partition)), default=0)


def first_difference(
    one: Iterator[StoredBatch], other: Iterator[StoredBatch], below: int
) -> int | None:
    """The first offset below a limit where two logs differ; a missing batch is a difference."""
    for mine, theirs in zip_longest(one, other):
        ends = [each.base_offset for each in (mine, theirs) if each is not None]
        offset = min(ends)
        if offset >= below:
            return None
        if mine != theirs:
            return offset
    return None


def compare(data_by_node: Mapping[int, Path], topic: str, partition: int, below: int) -> Comparison:
    """All copies with the first one, below an offset: the high watermark."""
    (reference, data), *others = sorted(data_by_node.items())
    differences = []
    for node_id, directory in others:
        offset = first_difference(
            stored_batches(data, topic, partition),
            stored_batches(directory, topic, partition),
            below,
        )
        if offset is not None:
            where = f"{topic}-{partition}: nodes {reference} and {node_id}"
            differences.append(f"{where} differ from offset {offset} on")
    held = [each for each in stored_batches(data, topic, partition) if each.base_offset < below]
    reach = held[-1].next_offset if held else 0
    if reach < below:
        missing = f"{topic}-{partition}: node {reference} ends at {reach}, {below} is committed"
        differences.append(missing)
    return Comparison(partition, sum(len(each.content) for each in held), below, tuple(differences))
