"""Events of several nodes in one order: each node's own order, and causes before effects.

Clocks of nodes differ, so they decide only between events that do not know of each other. What
one event says of a leader epoch, a partition epoch or an offset tells which others came before.
"""

from collections.abc import Iterable, Mapping
from typing import Any

Event = dict[str, Any]

DECIDED = ("LeaderElected", "IsrCommitted")
"""By the controller: everybody else hears of it later."""
_NONE = -1


def in_order(by_node: Mapping[int, list[Event]]) -> list[Event]:
    """All events, merged. Nothing that a node told is put before what it told earlier."""
    left = {node: list(reversed(events)) for node, events in by_node.items() if events}
    waiting = _Waiting(event for events in left.values() for event in events)
    merged = []
    while left:
        heads = sorted(((events[-1]["wall_ms"], node) for node, events in left.items()))
        chosen = next(
            (node for _, node in heads if not waiting.holds_back(left[node][-1])), heads[0][1]
        )
        event = left[chosen].pop()
        waiting.take(event)
        merged.append(event)
        if not left[chosen]:
            del left[chosen]
    return merged


class _Waiting:
    """What is not merged yet, by partition."""

    __slots__ = ("_by_partition",)

    def __init__(self, events: Iterable[Event]) -> None:
        self._by_partition: dict[str, list[Event]] = {}
        for event in events:
            name = event.get("partition")
            if isinstance(name, str):
                self._by_partition.setdefault(name, []).append(event)

    def take(self, event: Event) -> None:
        name = event.get("partition")
        if isinstance(name, str):
            self._by_partition[name].remove(event)

    def holds_back(self, event: Event) -> bool:
        """Whether something of another node that waits has to come first."""
        name = event.get("partition")
        others = self._by_partition.get(name, ()) if isinstance(name, str) else ()
        return any(other["node"] != event["node"] and precedes(other, event) for other in others)


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
