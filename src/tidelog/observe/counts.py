"""How often each kind of event happened, and how late the event loop is."""

import asyncio
from typing import Final

from tidelog.core import events
from tidelog.observe.stream import EventStream, NumberedEvent


class EventCounts:
    """Counts what passes through a stream. Coalesced events are counted as they are told."""

    __slots__ = ("by_kind", "isr_expands", "isr_shrinks", "unclean_elections")

    def __init__(self, stream: EventStream) -> None:
        kinds: tuple[type, ...] = events.Event.__args__
        self.by_kind: dict[str, int] = {kind.__name__: 0 for kind in kinds}
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.unclean_elections = 0
        stream.subscribe(self._on_event)

    def _on_event(self, numbered: NumberedEvent) -> None:
        event = numbered.event
        self.by_kind[type(event).__name__] += 1
        if isinstance(event, events.IsrChanged):
            before, after = set(event.previous), set(event.isr)
            self.isr_shrinks += bool(before - after)
            self.isr_expands += bool(after - before)
        elif isinstance(event, events.LeaderElected):
            self.unclean_elections += event.unclean


PROBE_S: Final = 0.25
BOUNDS_S: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class LoopDelay:
    """How late the event loop wakes us, four times a second. Everything a node does waits so long.

    Heartbeats and fetches share the loop, so delays near the session timeout cost leaderships.
    """

    __slots__ = ("_handle", "_loop", "count", "over", "seconds", "worst_seconds")

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self.worst_seconds = 0.0
        self.over: list[int] = [0] * (len(BOUNDS_S) + 1)
        """Probes by the first bound that is not below their delay; the last: above all."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._plan(self._loop)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def note(self, delay_s: float) -> None:
        self.count += 1
        self.seconds += delay_s
        self.worst_seconds = max(self.worst_seconds, delay_s)
        place = next((i for i, bound in enumerate(BOUNDS_S) if delay_s <= bound), len(BOUNDS_S))
        self.over[place] += 1

    def _plan(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + PROBE_S

        def probe() -> None:
            self.note(max(0.0, loop.time() - due))
            self._plan(loop)

        self._handle = loop.call_at(due, probe)
