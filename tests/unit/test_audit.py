"""The verdicts on what a cluster kept: each kind of damage is found and named."""

from pathlib import Path

import pytest

from support.batches import batch
from tidelog.audit.delivery import Delivery, judge
from tidelog.audit.replica_comparison import TRIMMED
from tidelog.audit.replica_logs import (
    DIVERGING,
    IDENTICAL,
    LAGGING,
    compare,
    records_only_in,
)
from tidelog.bench.failover import longest_gap_ms, share


def test_what_was_acknowledged_and_is_there_once_in_order_is_clean() -> None:
    told = [(0, 1), (1, 2), (3, 3)]
    assert judge(told, [(0, 1), (1, 2), (3, 3), (4, 4)]).is_clean


@pytest.mark.parametrize(
    ("read", "damage"),
    [
        ([(0, 1), (2, 3)], Delivery([2], [], [], [])),
        ([(0, 1), (1, 2), (2, 3), (3, 2)], Delivery([], [2], [2], [])),
        ([(0, 1), (1, 3), (2, 2)], Delivery([], [], [2], [2, 3])),
        ([(0, 1), (1, 2), (5, 3)], Delivery([], [], [], [3])),
    ],
)
def test_every_broken_promise_is_named(read: list[tuple[int, int]], damage: Delivery) -> None:
    assert judge([(0, 1), (1, 2), (2, 3)], read) == damage
    assert not damage.is_clean


def at_offset(base_offset: int, *values: bytes) -> bytes:
    data = bytearray(batch(*values))
    data[:8] = base_offset.to_bytes(8, "big")
    return bytes(data)


def write(directory: Path, node: int, *batches: bytes, segment: int = 0) -> None:
    place = directory / str(node) / "t-0"
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{segment:020}.log").write_bytes(b"".join(batches))


FIRST, SECOND, THIRD = at_offset(0, b"a", b"b"), at_offset(2, b"c"), at_offset(3, b"d")


def directories(root: Path) -> dict[int, Path]:
    return {node: root / str(node) for node in (1, 2)}


def test_the_same_batches_in_other_segments_are_identical(tmp_path: Path) -> None:
    write(tmp_path, 1, FIRST, SECOND, THIRD)
    write(tmp_path, 2, FIRST)
    write(tmp_path, 2, SECOND, THIRD, segment=2)
    found = compare(directories(tmp_path), "t-0", 4)
    assert (found.verdict, found.ends) == (IDENTICAL, {1: 4, 2: 4})
    assert found.compared_bytes == len(FIRST + SECOND + THIRD)


def test_what_lies_above_the_high_watermark_may_differ(tmp_path: Path) -> None:
    write(tmp_path, 1, FIRST, SECOND)
    write(tmp_path, 2, FIRST, at_offset(2, b"other"))
    assert compare(directories(tmp_path), "t-0", 2).verdict == IDENTICAL


def test_a_log_that_begins_later_is_compared_from_there(tmp_path: Path) -> None:
    write(tmp_path, 1, FIRST, SECOND, THIRD)
    write(tmp_path, 2, SECOND, THIRD, segment=2)
    assert compare(directories(tmp_path), "t-0", 4).verdict == TRIMMED


def test_a_copy_that_ends_below_the_high_watermark_lags(tmp_path: Path) -> None:
    write(tmp_path, 1, FIRST, SECOND)
    write(tmp_path, 2, FIRST, SECOND[:-1])
    found = compare(directories(tmp_path), "t-0", 3)
    assert (found.verdict, found.ends) == (LAGGING, {1: 3, 2: 2})


def test_the_range_in_which_copies_differ_is_named(tmp_path: Path) -> None:
    write(tmp_path, 1, FIRST, SECOND, THIRD)
    write(tmp_path, 2, FIRST, at_offset(2, b"X"), THIRD)
    found = compare(directories(tmp_path), "t-0", 4)
    assert (found.verdict, found.first_difference, found.last_difference) == (DIVERGING, 2, 3)


def test_a_gap_is_the_longest_stretch_between_two_acknowledgements() -> None:
    assert longest_gap_ms([0.0, 1.0, 1.1, 1.5, 1.6], 0.9, 2.0) == pytest.approx(400)
    assert longest_gap_ms([], 1.0, 2.0) == pytest.approx(1000)
    assert [share([1.0, 2.0, 3.0, 10.0], part) for part in (0.5, 0.9)] == [3.0, 10.0]


def test_records_that_only_one_copy_has_are_counted_from_the_first_difference(
    tmp_path: Path,
) -> None:
    write(tmp_path, 1, FIRST, SECOND, THIRD)
    write(tmp_path, 2, FIRST, at_offset(2, b"x"))
    one, other = tmp_path / "1/t-0", tmp_path / "2/t-0"
    assert records_only_in(one, other) == 2
    assert records_only_in(other, other) == 0
