"""The one stream of events out of a node.

Everything visible passes here, so `emit` must cost next to nothing: it numbers the event, keeps it
and hands it to whoever listens. Events that come with every produce and every fetch wait up to
50 ms and are told as one per partition: the last of them, reaching back to where the first began.
They are numbered when they are told, so what is numbered has no holes, and a busy minute does not
push an election out of the ring.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

from tidelog.core.events import Event, HighWatermarkAdvanced, RecordsAppended
from tidelog.core.types import PartitionId
from tidelog.host.ports import Clock
from tidelog.host.timers import TimerWheel

_LOGGER = logging.getLogger("tidelog.observe")

KEPT_EVENTS = 10_000
COALESCE_MS = 50
"""At most 20 a second for one partition, which is as often as a screen is drawn."""


class NumberedEvent(NamedTuple):
    number: int
    """Counts from 1 in every process of a node."""
    wall_ms: int
    monotonic_ms: int
    event: Event


class Backlog(NamedTuple):
    """What happened after some number."""

    missed: int
    """How many are not kept any more. All that went before is unknown too if it is -1: the number
    was never given out by this process."""
    events: tuple[NumberedEvent, ...]


Subscriber = Callable[[NumberedEvent], None]
Kept = tuple[int, int, int, Event]


class EventStream:
    """Owner of a node's numbers. `emit` is what everybody else is given.

    Without `timers` coalesced events are told by the next other event of their partition, or by
    `flush`.
    """

    __slots__ = (
        "_clock",
        "_first",
        "_flush_due",
        "_kept",
        "_latest",
        "_subscribers",
        "_timers",
        "last_number",
        "node_id",
        "started_ms",
    )

    def __init__(self, node_id: int, clock: Clock, timers: TimerWheel | None = None) -> None:
        self.node_id = node_id
        self.started_ms = clock.wall_ms()
        """Tells the numbers of this process from those of the one before."""
        self.last_number = 0
        self._clock = clock
        self._timers = timers
        self._kept: list[Kept | None] = [None] * KEPT_EVENTS
        self._subscribers: tuple[Subscriber, ...] = ()
        coalesced: tuple[type, ...] = (RecordsAppended, HighWatermarkAdvanced)
        self._first: dict[type, dict[PartitionId, Event]] = {kind: {} for kind in coalesced}
        self._latest: dict[type, dict[PartitionId, Event]] = {kind: {} for kind in coalesced}
        self._flush_due = False

    def emit(self, event: Event) -> None:
        latest = self._latest.get(type(event))
        if latest is None:
            self._tell_waiting_of(event[0])
            self._tell(event)
            return
        partition = event[0]
        if partition not in latest:
            self._first[type(event)][partition] = event  # type: ignore[index]  # by kind
            if not self._flush_due:
                self._plan_flush()
        latest[partition] = event  # type: ignore[index]  # coalesced kinds begin with a partition

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Every event from now on, until the returned function is called. The callback runs where
        the event happened, so it must be quick; one that raises is not called again."""
        self._subscribers = (*self._subscribers, callback)

        def unsubscribe() -> None:
            self._subscribers = tuple(each for each in self._subscribers if each is not callback)

        return unsubscribe

    def since(self, number: int, limit: int = KEPT_EVENTS) -> Backlog:
        """What is kept with a larger number, oldest first, and how many are not kept any more."""
        oldest = max(1, self.last_number - KEPT_EVENTS + 1)
        if number > self.last_number or number < 0:
            return Backlog(-1, self._from(oldest, limit))
        missed = max(0, oldest - number - 1)
        return Backlog(missed, self._from(max(oldest, number + 1), limit))

    def flush(self) -> None:
        """Tell what waits: appends first, then how far they are committed."""
        self._flush_due = False
        for kind, latest in self._latest.items():
            if latest:
                first = self._first[kind]
                self._first[kind], self._latest[kind] = {}, {}
                for partition, event in latest.items():
                    self._tell(joined(first[partition], event))

    def _from(self, number: int, limit: int) -> tuple[NumberedEvent, ...]:
        found = []
        for each in range(number, min(number + limit, self.last_number + 1)):
            kept = self._kept[each % KEPT_EVENTS]
            assert kept is not None, f"nothing in the place of {each}"
            assert kept[0] == each, f"{kept[0]} in the place of {each}"
            found.append(NumberedEvent._make(kept))
        return tuple(found)

    def _tell_waiting_of(self, partition: object) -> None:
        """What happened to a partition is told in order, be it more often than planned."""
        for kind, latest in self._latest.items():
            if partition in latest:
                event = latest.pop(partition)
                first = self._first[kind].pop(partition)
                self._tell(joined(first, event))

    def _tell(self, event: Event) -> None:
        number = self.last_number = self.last_number + 1
        clock = self._clock
        kept = (number, clock.wall_ms(), clock.monotonic_ms(), event)
        self._kept[number % KEPT_EVENTS] = kept
        if self._subscribers:
            numbered = NumberedEvent._make(kept)
            for callback in self._subscribers:
                try:
                    callback(numbered)
                except Exception:  # telling of a change must not undo it
                    self._subscribers = tuple(c for c in self._subscribers if c is not callback)
                    _LOGGER.exception("a reader of the event stream failed and is not told more")

    def _plan_flush(self) -> None:
        if self._timers is not None:
            self._flush_due = True
            self._timers.after(COALESCE_MS, self.flush)


def joined(first: Event, last: Event) -> Event:
    """One event for several of the same kind and partition, as true as they were."""
    if isinstance(first, HighWatermarkAdvanced) and isinstance(last, HighWatermarkAdvanced):
        return last._replace(previous=first.previous)
    assert isinstance(first, RecordsAppended), first
    assert isinstance(last, RecordsAppended), last
    if first.leader_epoch != last.leader_epoch:
        return last
    return last._replace(base_offset=first.base_offset)
