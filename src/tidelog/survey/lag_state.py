"""How a group keeps up: what one look can say, and what a window of looks can.

The words are Burrow's. It judges by the times of commits, which the protocol does not tell; here
whether a member owns the partition tells one that is stopped from one that is stuck.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from tidelog.survey.groups import PartitionLag

OK, WARN, REWIND, STALL, STOP = "OK", "WARN", "REWIND", "STALL", "STOP"
BY_WEIGHT = (OK, WARN, REWIND, STALL, STOP)
MEANINGS = {
    OK: "keeps up",
    WARN: "falling behind",
    REWIND: "its offset went back",
    STALL: "its member commits nothing new",
    STOP: "nobody reads it",
}


class Look(NamedTuple):
    at_ms: int
    committed: int
    lag: int
    is_owned: bool


def one_look(partition: PartitionLag) -> str:
    """Only what is so now; whether it gets better or worse is not known."""
    if partition.end is None:
        return "no leader"
    if partition.committed is None:
        return "no offset yet"
    if partition.lag == 0:
        return "caught up"
    return "behind" if partition.member is not None else "behind, nobody reads it"


def judge(looks: Sequence[Look], window_ms: int) -> str | None:
    """The state over the window that ends with the last look; None while that is too short."""
    if not looks:
        return None
    if any(later.committed < earlier.committed for earlier, later in pairwise(looks)):
        return REWIND
    if any(look.lag == 0 for look in looks):
        return OK
    if looks[-1].at_ms - looks[0].at_ms < window_ms:
        return None
    if looks[-1].committed == looks[0].committed:
        return STALL if looks[-1].is_owned else STOP
    if all(later.lag >= earlier.lag for earlier, later in pairwise(looks)):
        return WARN
    return OK


def worst(states: Iterable[str | None]) -> str | None:
    known = [state for state in states if state is not None]
    return max(known, key=BY_WEIGHT.index) if known else None


class LagWindow:
    """The looks of one watch, and since when the group is in the state it is in."""

    __slots__ = ("_looks", "_since_ms", "_state", "_window_ms")

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        self._looks: dict[tuple[str, int], deque[Look]] = {}
        self._state: str | None = None
        self._since_ms = 0

    def add(self, partitions: Iterable[PartitionLag], now_ms: int) -> dict[tuple[str, int], str]:
        """What each partition's state is now, where it is known."""
        states: dict[tuple[str, int], str] = {}
        for each in partitions:
            if each.committed is None or each.lag is None:
                continue
            looks = self._looks.setdefault(each.where, deque())
            looks.append(Look(now_ms, each.committed, each.lag, each.member is not None))
            while len(looks) > 1 and looks[1].at_ms <= now_ms - self._window_ms:
                looks.popleft()
            state = judge(tuple(looks), self._window_ms)
            if state is not None:
                states[each.where] = state
        self._note(worst(states.values()), now_ms)
        return states

    def words(self, now_ms: int) -> str | None:
        """`WARN: falling behind for 40 s`; None while nothing is known."""
        if self._state is None:
            return None
        if self._state == OK:
            return OK
        seconds = max(0, now_ms - self._since_ms) // 1000
        return f"{self._state}: {MEANINGS[self._state]} for {seconds} s"

    def _note(self, state: str | None, now_ms: int) -> None:
        if state != self._state:
            self._state = state
            looks = [looks[0].at_ms for looks in self._looks.values() if looks]
            self._since_ms = min(looks, default=now_ms)
