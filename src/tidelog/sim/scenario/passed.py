"""What has passed between replicas, as numbers: the arrows of a picture."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

FETCH = "fetch"
ANSWER = "answer"
DIVERGING = "diverging"
TRUNCATE = "truncate"

ARRIVED = "arrived"
HELD = "held"
LOST = "lost"

KEPT = 12
"""So many of the last messages are remembered."""


class Passed(NamedTuple):
    """A message from one replica to another, or what one did to itself because of one."""

    source: int
    target: int
    kind: str
    text: str
    offset: int
    epoch: int | None
    """The leader epoch it speaks of; None if it speaks of none."""
    fate: str = ARRIVED


class PassedMessages:
    """The last of them, numbered from the beginning of the scene."""

    def __init__(self) -> None:
        self.count = 0
        self._kept: deque[tuple[int, Passed]] = deque(maxlen=KEPT)

    def add(self, message: Passed) -> None:
        self._kept.append((self.count, message))
        self.count += 1

    def last(self) -> list[tuple[int, Passed]]:
        return list(self._kept)
