"""Deadlines of many members, most of which are moved on long before they are due."""

import heapq
from typing import NamedTuple

from tidelog.core.types import NEVER_MS


class MemberKey(NamedTuple):
    group_id: str
    member_id: str


class Deadlines:
    """At most one deadline per member. Moving one to a later time costs nothing: its old place in
    the queue is looked at when it comes up."""

    __slots__ = ("_due_ms", "_queue")

    def __init__(self) -> None:
        self._due_ms: dict[MemberKey, int] = {}
        self._queue: list[tuple[int, MemberKey]] = []

    def set(self, key: MemberKey, due_ms: int) -> None:
        before_ms = self._due_ms.get(key)
        self._due_ms[key] = due_ms
        if before_ms is None or due_ms < before_ms:
            heapq.heappush(self._queue, (due_ms, key))

    def drop(self, key: MemberKey) -> None:
        self._due_ms.pop(key, None)

    def find(self, key: MemberKey) -> int | None:
        return self._due_ms.get(key)

    def clear(self) -> None:
        self._due_ms.clear()
        self._queue.clear()

    def next_ms(self) -> int:
        self._settle()
        return self._queue[0][0] if self._queue else NEVER_MS

    def pop_due(self, now_ms: int) -> list[MemberKey]:
        """Everybody whose time is over, in order of their deadlines; they have none any more."""
        due = []
        while self.next_ms() <= now_ms:
            _, key = heapq.heappop(self._queue)
            del self._due_ms[key]
            due.append(key)
        return due

    def _settle(self) -> None:
        """Until the first place in the queue is a deadline that holds."""
        while self._queue:
            place_ms, key = self._queue[0]
            due_ms = self._due_ms.get(key)
            if due_ms == place_ms:
                return
            if due_ms is None or due_ms < place_ms:  # gone, or it has an earlier place as well
                heapq.heappop(self._queue)
            else:
                heapq.heapreplace(self._queue, (due_ms, key))
