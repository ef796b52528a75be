"""From ranges of offsets to tasks. Pure: numbers in, numbers out.

A task of Python's costs Spark about 33 ms, so many small ranges share one. A partition is split
only where somebody asked for it: what one task reads keeps its order.
"""

import os
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from itertools import pairwise

from tidelog.spark.ranges import OffsetRange
from tidelog.spark.source_options import Packing

Group = tuple[OffsetRange, ...]

TASKS_PER_CORE = 2
OFFSETS_WORTH_A_TASK = 20_000
"""A task takes in so many, of 1 KiB each, while another one starts."""


def default_tasks() -> int:
    """How many tasks keep a cluster busy. Spark does not tell a Python source how many executors
    it has; where they are not like this machine, `minPartitions` says it."""
    return TASKS_PER_CORE * (os.cpu_count() or 1)


def plan(ranges: Iterable[OffsetRange], packing: Packing, tasks: int) -> list[Group]:
    """Every offset of the ranges in exactly one group. At least `min_partitions` groups as far as
    there are offsets, none with more than `max_records` offsets, and otherwise at most `tasks`."""
    assert tasks > 0, tasks
    pieces = [each for each in ranges if each.size > 0]
    if not pieces:
        return []
    if packing.max_records is not None:
        pieces = [
            part for each in pieces for part in _cut(each, -(-each.size // packing.max_records))
        ]
    if packing.min_partitions is not None and len(pieces) < packing.min_partitions:
        pieces = _split(pieces, packing.min_partitions)
    return _pack(pieces, _group_count(pieces, packing, tasks), packing.max_records)


def _group_count(pieces: list[OffsetRange], packing: Packing, tasks: int) -> int:
    total = sum(each.size for each in pieces)
    count = max(packing.min_partitions or 1, min(tasks, -(-total // OFFSETS_WORTH_A_TASK)))
    if packing.max_records is not None:
        count = max(count, -(-total // packing.max_records))
    return min(count, len(pieces))


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """Into parts that differ by one offset at most."""
    assert 0 < parts <= whole.size, (parts, whole)
    edges = [whole.start + whole.size * index // parts for index in range(parts + 1)]
    return [whole._replace(start=start, end=end) for start, end in pairwise(edges)]


def _split(pieces: list[OffsetRange], wanted: int) -> list[OffsetRange]:
    """Into `wanted` pieces, or as many as there are offsets: always the one with the largest
    parts gets one more."""
    parts = [1] * len(pieces)
    largest = [(-each.size, index) for index, each in enumerate(pieces)]
    heapify(largest)
    for _ in range(wanted - len(pieces)):
        share, index = heappop(largest)
        if share > -2:  # single offsets all of them
            break
        parts[index] += 1
        heappush(largest, (-pieces[index].size // parts[index], index))
    return [part for each, count in zip(pieces, parts, strict=True) for part in _cut(each, count)]


def _pack(pieces: list[OffsetRange], count: int, most: int | None) -> list[Group]:
    """Largest first, always into the lightest group; another group where that is too full."""
    groups: list[list[OffsetRange]] = [[] for _ in range(count)]
    lightest = [(0, index) for index in range(count)]
    for piece in sorted(pieces, key=lambda each: (-each.size, each)):
        load, index = lightest[0]
        if most is not None and load and load + piece.size > most:
            groups.append([piece])
            heappush(lightest, (piece.size, len(groups) - 1))
            continue
        heappop(lightest)
        groups[index].append(piece)
        heappush(lightest, (load + piece.size, index))
    return [tuple(sorted(group)) for group in groups if group]
