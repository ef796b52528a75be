"""What one producer was promised against what can be read back (reliability.md §1.2)."""

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple


class Delivery(NamedTuple):
    """Numbers of records by which a promise was broken; all empty if none was."""

    lost: list[int]
    """Acknowledged, and nowhere."""
    duplicated: list[int]
    """At two offsets."""
    reordered: list[int]
    """Behind a record that was sent later."""
    misplaced: list[int]
    """Not at the offset that was told."""

    @property
    def is_clean(self) -> bool:
        return not any(self)


def judge(acknowledged: Iterable[tuple[int, int]], read: Iterable[tuple[int, int]]) -> Delivery:
    """Both are (offset, number) of one partition; numbers rise in the order of sending.

    A record whose fate the producer does not know may be there or not, once.
    """
    offsets: dict[int, int] = {}
    duplicated = []
    in_order = sorted(read)
    for offset, number in in_order:
        if number in offsets:
            duplicated.append(number)
        offsets.setdefault(number, offset)
    reordered = [after for (_, before), (_, after) in pairwise(in_order) if after < before]
    lost, misplaced = [], []
    for offset, number in acknowledged:
        if number not in offsets:
            lost.append(number)
        elif offsets[number] != offset:
            misplaced.append(number)
    return Delivery(lost, duplicated, reordered, misplaced)
