"""What is wrong on a node right now: every bad state that lasts is a finding until it is over.

The part that notices a problem reports it, and clears it when it is gone. Everything else follows
from that: the journal gets one line when a finding begins and one when it ends, `/healthz` and
`/state` list it, and `tidelog_findings` counts it by kind.

A finding never decides whether a node may serve; `observe.views.Health` does.
"""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.core.events import Event, FindingCleared, FindingRaised


class Finding(NamedTuple):
    kind: str
    """For scripts and metrics: lower case with dashes, and it never changes (`disk-full`)."""
    subject: str
    """What it is about: a partition, a broker, a directory. One finding per kind and subject."""
    text: str
    """What is wrong, in one sentence with its numbers."""
    advice: str
    """What an operator can do about it; empty if the node mends it by itself."""
    since_ms: int
    """Wall time at which it was first reported."""


class Findings:
    """The findings of one node. Parts report and clear; observers read."""

    __slots__ = ("_emit", "_open", "_wall_ms")

    def __init__(self, emit: Callable[[Event], None], wall_ms: Callable[[], int]) -> None:
        self._emit = emit
        self._wall_ms = wall_ms
        self._open: dict[tuple[str, str], Finding] = {}

    def report(self, kind: str, subject: str, text: str, *, advice: str = "") -> None:
        """Begin a finding, or bring the text of one that is open up to date without a new line."""
        known = self._open.get((kind, subject))
        since_ms = self._wall_ms() if known is None else known.since_ms
        self._open[kind, subject] = Finding(kind, subject, text, advice, since_ms)
        if known is None:
            self._emit(FindingRaised(kind, subject, text))

    def clear(self, kind: str, subject: str) -> None:
        """The problem is gone. Clearing what was never reported is fine."""
        if self._open.pop((kind, subject), None) is not None:
            self._emit(FindingCleared(kind, subject))

    def all(self) -> tuple[Finding, ...]:
        """Oldest first."""
        return tuple(self._open.values())
