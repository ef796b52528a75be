"""Reports a failure of our own code once, however often a peer makes it fail again, and invalid
requests once per peer and kind of mistake.

Clients reconnect in tight loops (20 times a second has been seen), so an error that one request
provokes comes back forever. The first one is reported in full; repeats of the same error at the
same line are counted and mentioned when the next one is due.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

from tidelog.host.ports import BadRequest, Clock

INTERVAL_MS = 60_000
_MOST_ORIGINS = 256

_LOGGER = logging.getLogger("tidelog.host")


class FailureReport(NamedTuple):
    error: Exception
    peer: str
    repeats: int
    """How many of the same origin were swallowed since the report before this one."""


Origin = tuple[str, str, int]


class FailureReports:
    """Passes on the first failure of every origin, and then one per interval."""

    __slots__ = ("_clock", "_sink", "_states", "total")

    def __init__(self, clock: Clock, sink: Callable[[FailureReport], None] | None = None) -> None:
        self._clock = clock
        self._sink = log_failure if sink is None else sink
        self._states: dict[Origin, tuple[int, int]] = {}  # quiet until, repeats
        self.total = 0

    def report(self, error: Exception, peer: str) -> None:
        """Our code failed."""
        self.total += 1
        repeats = self._due(origin_of(error))
        if repeats is not None:
            self._sink(FailureReport(error, peer, repeats))

    def refuse(self, error: BadRequest, peer: str) -> None:
        """The peer has sent what is no request."""
        repeats = self._due((error.kind, peer, 0))
        if repeats is not None:
            _LOGGER.warning("%s is hung up on: %s (%d more before)", peer, error, repeats)

    def _due(self, origin: Origin) -> int | None:
        """How many were swallowed before, if it is time to speak again."""
        now_ms = self._clock.monotonic_ms()
        quiet_until_ms, repeats = self._states.pop(origin, (now_ms, 0))
        if now_ms < quiet_until_ms:
            self._states[origin] = (quiet_until_ms, repeats + 1)
            return None
        if len(self._states) >= _MOST_ORIGINS:
            del self._states[next(iter(self._states))]
        self._states[origin] = (now_ms + INTERVAL_MS, 0)
        return repeats


def origin_of(error: Exception) -> Origin:
    """Type, file and line where it was raised."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = ("", 0) if frame is None else (frame.tb_frame.f_code.co_filename, frame.tb_lineno)
    return (type(error).__qualname__, *where)


def log_failure(report: FailureReport) -> None:
    _LOGGER.error(
        "a request from %s failed in our code (%d more like it before)",
        report.peer,
        report.repeats,
        exc_info=report.error,
    )
