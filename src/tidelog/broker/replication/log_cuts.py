"""Truncations of logs, one per turn of the event loop.

A truncation is durable when it returns, so it waits for the disk several times. After an election
many logs may differ from their new leader's, and a single answer may report all of them.
"""

from collections import deque
from collections.abc import Callable

from tidelog.host import tasks


class LogCuts:
    """Who may cut a log in this turn. One per broker."""

    __slots__ = ("_taken", "_waiting")

    def __init__(self) -> None:
        self._taken = False
        self._waiting: deque[Callable[[], None]] = deque()

    def may_begin(self) -> bool:
        """Whether the caller may cut a log now. Else it says `later` what it would have done."""
        if self._taken or self._waiting:
            return False
        self._take_turn()
        return True

    def later(self, cut: Callable[[], None]) -> None:
        """In a turn of its own. What made it necessary may be over by then: `cut` finds out."""
        self._waiting.append(cut)

    def _take_turn(self) -> None:
        self._taken = True
        tasks.soon(self._next_turn)

    def _next_turn(self) -> None:
        self._taken = False
        if self._waiting:
            self._take_turn()
            self._waiting.popleft()()
