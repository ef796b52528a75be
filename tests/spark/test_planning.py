"""Ranges become tasks: every offset in exactly one of them."""

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidelog.spark.planning import OFFSETS_WORTH_A_TASK, plan
from tidelog.spark.ranges import OffsetRange
from tidelog.spark.source_options import Packing

quick = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def ranges_of_partitions(draw):
    sizes = draw(st.lists(st.integers(0, 400), max_size=12))
    starts = draw(st.lists(st.integers(0, 10**9), min_size=len(sizes), max_size=len(sizes)))
    return [
        OffsetRange("t", partition, start, start + size)
        for partition, (start, size) in enumerate(zip(starts, sizes, strict=True))
    ]


@quick
@given(
    ranges=ranges_of_partitions(),
    min_partitions=st.none() | st.integers(1, 50),
    max_records=st.none() | st.integers(1, 300),
    shares_tasks=st.booleans(),
    tasks=st.integers(1, 9),
)
def test_every_offset_is_in_exactly_one_task(
    ranges, min_partitions, max_records, shares_tasks, tasks
):
    groups = plan(ranges, Packing(min_partitions, max_records, shares_tasks), tasks)
    offsets = Counter(
        (each.partition, offset)
        for group in groups
        for each in group
        for offset in range(each.start, each.end)
    )
    assert offsets == Counter(
        (each.partition, offset) for each in ranges for offset in range(each.start, each.end)
    )
    assert all(groups)
    if max_records is not None:
        assert all(sum(each.size for each in group) <= max_records for group in groups)
    if not shares_tasks:
        assert all(len(group) == 1 for group in groups)
    elif min_partitions is max_records is None:
        assert len(groups) <= tasks


def test_every_partition_has_a_task_of_its_own():
    ranges = [OffsetRange("t", partition, 5, 15) for partition in range(100)]
    assert plan(ranges, Packing(), 4) == [(each,) for each in ranges]


def test_many_small_partitions_share_a_task_when_asked_to():
    ranges = [OffsetRange("t", partition, 5, 15) for partition in range(100)]
    assert plan(ranges, Packing(shares_tasks=True), 4) == [tuple(ranges)]


def test_large_partitions_are_spread_by_size_and_stay_whole():
    size = OFFSETS_WORTH_A_TASK
    ranges = [OffsetRange("t", index, 0, size * index) for index in range(1, 6)]
    groups = plan(ranges, Packing(shares_tasks=True), 3)
    assert sorted(each for group in groups for each in group) == ranges
    assert {sum(each.size for each in group) for group in groups} == {5 * size}


def test_nothing_to_read_is_no_task():
    assert plan([OffsetRange("t", 0, 7, 7)], Packing(8, 3), 4) == []


def test_one_large_partition_is_split_evenly_when_asked_to():
    groups = plan([OffsetRange("t", 0, 0, 1000)], Packing(min_partitions=4), 2)
    assert groups == [(OffsetRange("t", 0, at, at + 250),) for at in range(0, 1000, 250)]


def test_partitions_are_split_by_their_share_of_what_is_there():
    ranges = [OffsetRange("t", partition, 0, size) for partition, size in enumerate((10, 10, 10))]
    assert plan(ranges, Packing(min_partitions=4), 2) == [(each,) for each in ranges]
    assert [group[0].size for group in plan(ranges, Packing(min_partitions=7), 2)] == [5] * 6
    skewed = [OffsetRange("t", 0, 0, 97), OffsetRange("t", 1, 0, 3)]
    assert [group[0].size for group in plan(skewed, Packing(min_partitions=5), 2)] == [
        *(24, 24, 24, 25),
        3,
    ]
