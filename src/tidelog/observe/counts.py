"""How often each kind of event happened, and how late the event loop is."""

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


BOUNDS_S: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class LoopDelay:
    """How late the event loop woke us, ten times a second. Everything a node does waits so long.

    Heartbeats and fetches share the loop, so delays near the session timeout cost leaderships.
    """

    __slots__ = ("holds", "longest_hold_seconds", "over", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.over: list[int] = [0] * (len(BOUNDS_S) + 1)
        """Probes by the first bound that is not below their delay; the last: above all."""
        self.holds = 0
        """How often somebody held the loop so long that the journal names it."""
        self.longest_hold_seconds = 0.0

    def note(self, delay_s: float) -> None:
        self.seconds += delay_s
        place = next((i for i, bound in enumerate(BOUNDS_S) if delay_s <= bound), len(BOUNDS_S))
        self.over[place] += 1

    def note_hold(self, held_s: float) -> None:
        self.holds += 1
        self.longest_hold_seconds = max(self.longest_hold_seconds, held_s)
