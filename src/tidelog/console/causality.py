"""Events of several nodes in one order: each node's own order, and causes before effects.

Clocks of nodes differ, so they decide only between events that do not know of each other. What
one event says of a leader epoch, a partition epoch or an offset tells which others came before.
"""

from collections import deque
from itertools import islice
from typing import Any

Event = dict[str, Any]

DECIDED = ("LeaderElected", "IsrCommitted")
"""By the controller: everybody else hears of it later."""
CAUSES = frozenset((*DECIDED, "BecameLeader", "FetchDiverged"))
CAUSES_COMPARED = 64
"""Of one partition, oldest first. Epochs only grow, so what holds an event back is among the
first; a partition that flaps for hours must not make every event wait for a long search."""
_NONE = -1


class Merger:
    """Owner of the events that have arrived and are not in order yet."""

    __slots__ = ("_causes", "_queues")

    def __init__(self) -> None:
        self._queues: dict[int, deque[Event]] = {}
        self._causes: dict[str, dict[tuple[int, int, int], Event]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def add(self, event: Event) -> None:
        """Events of one node arrive in the order in which it numbered them."""
        self._queues.setdefault(event["node"], deque()).append(event)
        name = event.get("partition")
        if isinstance(name, str) and event["kind"] in CAUSES:
            self._causes.setdefault(name, {})[_identity(event)] = event

    def take(self, limit: int) -> list[Event]:
        """The next events. Nothing that a node told comes before what it told earlier."""
        taken: list[Event] = []
        while self._queues and len(taken) < limit:
            taken.append(self._take_one())
        return taken

    def _take_one(self) -> Event:
        heads = sorted((queue[0] for queue in self._queues.values()), key=_by_clock)
        free = (head for head in heads if not self._is_held_back(head, heads))
        event = next(free, heads[0])
        queue = self._queues[event["node"]]
        queue.popleft()
        if not queue:
            del self._queues[event["node"]]
        self._forget_cause(event)
        return event

    def _forget_cause(self, event: Event) -> None:
        name = event.get("partition")
        causes = self._causes.get(name) if isinstance(name, str) else None
        if causes is None:
            return
        causes.pop(_identity(event), None)
        if not causes:
            del self._causes[event["partition"]]

    def _is_held_back(self, event: Event, heads: list[Event]) -> bool:
        """Whether something that another node told has to come first."""
        name = event.get("partition")
        if not isinstance(name, str):
            return False
        causes = islice(self._causes.get(name, {}).values(), CAUSES_COMPARED)
        copied = (head for head in heads if head.get("partition") == name)
        return any(
            other["node"] != event["node"] and precedes(other, event)
            for others in (causes, copied)
            for other in others
        )


def _identity(event: Event) -> tuple[int, int, int]:
    return event["node"], event["stream"], event["number"]


def _by_clock(event: Event) -> tuple[int, int]:
    return event["wall_ms"], event["node"]


def precedes(cause: Event, effect: Event) -> bool:
    """Whether one event of a partition must have happened before another, on another node."""
    decided, done = cause["kind"], effect["kind"]
    if decided in DECIDED:
        known = effect.get("partition_epoch", _NONE)
        if known >= cause["partition_epoch"] and done not in DECIDED:
            return True
        epoch = effect.get("leader_epoch", _NONE)
        if decided != "LeaderElected" or done in DECIDED:
            return False
        return bool(epoch >= cause["leader_epoch"])
    if decided == "BecameLeader":
        if done not in ("RecordsAppended", "BecameFollower"):
            return False
        return bool(effect["leader_epoch"] >= cause["leader_epoch"])
    if decided == "FetchDiverged":
        return done == "LogTruncated" and bool(effect["broker"] == cause["replica"])
    if decided == done == "RecordsAppended":
        return _is_copy(cause, effect)
    return False


def _is_copy(cause: Event, effect: Event) -> bool:
    """The leader appends before it is fetched from; only the leader's append can be first, and
    which of two is that shows in who reaches further."""
    same = cause["leader_epoch"] == effect["leader_epoch"]
    return bool(same and cause["next_offset"] > effect["next_offset"])
