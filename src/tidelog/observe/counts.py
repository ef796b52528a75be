"""How often each kind of event happened, and how late the event loop is."""

from tidelog.core import events
from tidelog.host.histogram import Histogram
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


class LoopDelay(Histogram):
    """How late the event loop woke us, ten times a second. Everything a node does waits so long.

    Heartbeats and fetches share the loop, so delays near the session timeout cost leaderships.
    """

    __slots__ = ("holds", "longest_hold_seconds")

    def __init__(self) -> None:
        super().__init__()
        self.holds = 0
        """How often somebody held the loop so long that the journal names it."""
        self.longest_hold_seconds = 0.0

    def note_hold(self, held_s: float) -> None:
        self.holds += 1
        self.longest_hold_seconds = max(self.longest_hold_seconds, held_s)
