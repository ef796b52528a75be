"""What the connections of one event loop share: buffer, budgets, timers, and the time to send."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from tidelog.host.answers import AnswerBudget
from tidelog.host.flight import NetworkCounters, NodeFlight
from tidelog.host.frame_buffers import FrameBuffers, Scratch
from tidelog.host.ports import CloseReason
from tidelog.host.timers import TimerWheel

SCRATCH_BYTES = 256 * 1024


class Unsent(Protocol):
    """A connection to which something was written."""

    def flush(self) -> None:
        """Hand it to the transport."""
        ...


class OpenStream(Protocol):
    """A connection that is open."""

    def abort(self, reason: CloseReason) -> None:
        """End it now, with whatever was not sent."""
        ...


class NetworkContext:
    """One per event loop."""

    __slots__ = (
        "_flush_scheduled",
        "_unsent",
        "answers",
        "buffers",
        "corked",
        "counters",
        "flight",
        "loop",
        "open",
        "scratch",
        "wheel",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        wheel: TimerWheel,
        flight: NodeFlight,
        answers: AnswerBudget,
    ) -> None:
        self.loop = loop
        self.wheel = wheel
        self.flight = flight
        self.answers = answers
        self.counters = NetworkCounters()
        self.scratch = memoryview(Scratch(SCRATCH_BYTES))
        self.buffers = FrameBuffers()
        self.corked = False
        """Something is being worked on: what is written meanwhile, to whichever connection, is
        sent when that is done."""
        self.open: dict[OpenStream, None] = {}
        """Every connection that has a transport."""
        self._unsent: deque[Unsent] = deque()
        self._flush_scheduled = False

    def flush_later(self, stream: Unsent) -> None:
        self._unsent.append(stream)
        if not self.corked and not self._flush_scheduled:
            self._flush_scheduled = True
            self.loop.call_soon(self._flush_scheduled_ones)

    def together(self, work: Callable[[], None]) -> None:
        """Do it, then send what it has written to whichever connection."""
        self.corked = True
        try:
            work()
        finally:
            self.uncork()

    def uncork(self) -> None:
        self.corked = False
        unsent = self._unsent
        while unsent:
            unsent.popleft().flush()

    def _flush_scheduled_ones(self) -> None:
        self._flush_scheduled = False
        self.uncork()
