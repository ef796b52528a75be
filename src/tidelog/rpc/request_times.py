"""How long requests of one API wait for their answer: a sample of them, one at a time.

Timing all of them would cost a percent of a busy broker and tell nothing more.
"""

from collections.abc import Callable, Sequence
from typing import Final

from tidelog.host.histogram import Histogram
from tidelog.host.ports import Buffer, Clock, FileRange, ResponseSlot
from tidelog.wire.protocol import Message

EVERY: Final = 8
LOST_AFTER: Final = 1_000
"""So many more requests have come: the timed one was never answered, as when its client left."""


class RequestTimes:
    """Owner of the figures of one API."""

    __slots__ = ("_clock", "_concerns", "_skip", "_timed", "histogram")

    def __init__(self, clock: Clock, concerns: Callable[[Message], bool]) -> None:
        self._clock = clock
        self._concerns = concerns
        self._skip = 1
        self._timed: TimedSlot | None = None
        self.histogram = Histogram()

    def timed(self, slot: ResponseSlot, request: Message) -> ResponseSlot:
        """The slot, or one in its place that notes when it is filled."""
        self._skip -= 1
        if self._skip > 0 or (self._timed is not None and self._skip > -LOST_AFTER):
            return slot
        if not self._concerns(request):
            return slot
        self._skip = EVERY
        self._timed = TimedSlot(slot, self, self._clock.monotonic_ms())
        return self._timed

    def on_answered(self, slot: "TimedSlot") -> None:
        if self._timed is slot:
            self._timed = None
            self.histogram.note((self._clock.monotonic_ms() - slot.began_ms) / 1000)


class TimedSlot:
    __slots__ = ("_slot", "_times", "began_ms")

    def __init__(self, slot: ResponseSlot, times: RequestTimes, began_ms: int) -> None:
        self._slot = slot
        self._times = times
        self.began_ms = began_ms

    def answer(self, parts: Sequence[Buffer | FileRange]) -> None:
        self._times.on_answered(self)
        self._slot.answer(parts)

    def answer_nothing(self) -> None:
        self._times.on_answered(self)
        self._slot.answer_nothing()

    def when_it_holds_up(self, call: Callable[[], None]) -> None:
        self._slot.when_it_holds_up(call)
