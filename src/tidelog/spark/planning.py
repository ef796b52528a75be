"""From ranges of offsets to tasks. Pure: numbers in, numbers out.

Tasks are planned as the stock connector plans them: one for each partition that has something to
read, more where `minPartitions` or `maxRecordsPerPartition` ask for them, and the same number of
them from the same offsets. A task of Python's costs Spark about 33 ms, so with `packPartitions`
small ranges share one.
"""

import os
from collections.abc import Iterable
from heapq import heappop, heappush
from math import floor

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
    """Every offset of the ranges in exactly one group, and none of them with more than
    `max_records` offsets. Packed, there are at most `tasks` groups unless more are asked for."""
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
    if not packing.shares_tasks:
        return [(each,) for each in pieces]
    return _pack(pieces, _group_count(pieces, packing, tasks), packing.max_records)


def _group_count(pieces: list[OffsetRange], packing: Packing, tasks: int) -> int:
    total = sum(each.size for each in pieces)
    count = max(packing.min_partitions or 1, min(tasks, -(-total // OFFSETS_WORTH_A_TASK)))
    if packing.max_records is not None:
        count = max(count, -(-total // packing.max_records))
    return min(count, len(pieces))


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """Into parts that differ by one offset at most, the larger ones last. Of fewer offsets than
    parts come parts of one offset."""
    cut = []
    start = whole.start
    for parts_left in range(parts, 0, -1):
        end = start + (whole.end - start) // parts_left
        if end > start:
            cut.append(whole._replace(start=start, end=end))
        start = end
    return cut


def _split(pieces: list[OffsetRange], wanted: int) -> list[OffsetRange]:
    """Into about `wanted` pieces. Those whose share of all offsets is not worth two stay whole;
    the others are cut in proportion to what they have of the rest."""
    total = sum(each.size for each in pieces)
    whole = [each for each in pieces if _share(each.size, total, wanted) == 1]
    whole_partitions = {(each.topic, each.partition) for each in whole}
    rest = total - sum(each.size for each in whole)
    wanted_of_rest = max(wanted - len(whole), 1)
    return [
        part
        for each in pieces
        for part in _cut(
            each,
            1
            if (each.topic, each.partition) in whole_partitions
            else _share(each.size, rest, wanted_of_rest),
        )
    ]


def _share(size: int, total: int, wanted: int) -> int:
    """Rounded as Java rounds, so that the count is the stock connector's."""
    return max(floor(size / total * wanted + 0.5), 1)


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
