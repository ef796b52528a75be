"""Many timers of which few ever fire.

A heartbeat moves its member's deadline, and nearly every request of a group is one. So a timer
that moves to later is only noted; the heap learns of it when the old time has come.
"""

import heapq
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

from tidelog.core.types import NEVER_MS

Key = TypeVar("Key", bound=Hashable)


class Deadlines(Generic[Key]):
    """Timers by key. Keys have to be comparable: they break ties."""

    __slots__ = ("_due", "_heap", "_queued")

    def __init__(self) -> None:
        self._due: dict[Key, int] = {}
        self._queued: dict[Key, int] = {}
        """For each key the one entry of the heap that counts; others are left-overs."""
        self._heap: list[tuple[int, Any]] = []  # Any: mypy has no word for "comparable"

    def set(self, key: Key, deadline_ms: int) -> None:
        self._due[key] = deadline_ms
        queued = self._queued.get(key)
        if queued is None or deadline_ms < queued:
            self._queued[key] = deadline_ms
            heapq.heappush(self._heap, (deadline_ms, key))

    def lower(self, key: Key, deadline_ms: int) -> None:
        """Not later than this, if there is such a timer at all."""
        due = self._due.get(key)
        if due is not None and deadline_ms < due:
            self.set(key, deadline_ms)

    def cancel(self, key: Key) -> None:
        self._due.pop(key, None)

    def next_ms(self) -> int:
        heap = self._heap
        while heap:
            queued, key = heap[0]
            due = self._due.get(key)
            if self._queued.get(key) != queued:
                heapq.heappop(heap)
            elif due is None:
                heapq.heappop(heap)
                del self._queued[key]
            elif due > queued:
                heapq.heapreplace(heap, (due, key))
                self._queued[key] = due
            else:
                return queued
        return NEVER_MS

    def take_due(self, now_ms: int) -> Key | None:
        """One timer that has run out, the earliest first; it is gone then."""
        if self.next_ms() > now_ms:
            return None
        _, key = heapq.heappop(self._heap)
        del self._queued[key]
        del self._due[key]
        return key  # type: ignore[no-any-return]  # the heap holds Keys
