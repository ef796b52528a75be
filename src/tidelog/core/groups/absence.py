"""A member whose connection broke: until when is it taken for alive? (ADR 0021)

A broken connection is a hint, not a proof. Some clients open the next one at once, others with
their next heartbeat. So a member is taken for dead when it has also missed a heartbeat by its own
rhythm. The rhythm of a classic member is observed, that of the consumer protocol is set by us.
"""

from collections import deque
from typing import Final, NamedTuple

REMEMBERED: Final = 8
"""Gaps between heartbeats. The longest of them counts, so a busy client gets more time."""

BEATS: Final = 2
"""A heartbeat may be lost with the connection. Then it is tried again, after pauses that grow to
seconds, or the next one follows. So two of them have to be missing."""


class Rhythm:
    """How far apart the heartbeats of one classic member are."""

    __slots__ = ("_gaps", "_last_ms")

    def __init__(self) -> None:
        self._gaps: deque[int] = deque(maxlen=REMEMBERED)
        self._last_ms: int | None = None

    def beat(self, now_ms: int) -> None:
        if self._last_ms is not None:
            assert now_ms >= self._last_ms, f"{now_ms} ms comes after {self._last_ms} ms"
            self._gaps.append(now_ms - self._last_ms)
        self._last_ms = now_ms

    def pause(self) -> None:
        """The member joins or syncs. Many clients send no heartbeats meanwhile."""
        self._last_ms = None

    def observed_ms(self) -> int | None:
        """None until two heartbeats came in a row."""
        return max(self._gaps, default=None)


class Silence(NamedTuple):
    """What is known of a member when its connection breaks."""

    heard_ms: int
    """When it said something for the last time."""
    rhythm_ms: int | None
    """Between its heartbeats; None if nobody knows yet."""
    session_ms: int
    is_interrupted: bool = False
    """It waited for an answer of ours, so it knows that the connection broke."""


def deadline_ms(silence: Silence, usual_ms: int, *, client_is_there: bool) -> int:
    """When this member is taken for dead unless it is heard of. `usual_ms` lies between the
    heartbeats of most clients. `client_is_there` says that its client has another connection, or
    opened one since: it lives, or its successor was started."""
    assert silence.session_ms > 0, f"a session of {silence.session_ms} ms"
    session_ends_ms = silence.heard_ms + silence.session_ms
    return min(session_ends_ms, silence.heard_ms + _patience_ms(silence, usual_ms, client_is_there))


def last_chance_ms(silence: Silence, now_ms: int, grace_ms: int) -> int:
    """The deadline has passed and the member was not heard of. Until when may it still be? Had
    this broker stood still, what the member said meanwhile would be read only now."""
    assert now_ms >= silence.heard_ms, f"heard at {silence.heard_ms} ms, and it is {now_ms} ms"
    return min(silence.heard_ms + silence.session_ms, now_ms + grace_ms)


def _patience_ms(silence: Silence, usual_ms: int, client_is_there: bool) -> int:
    if silence.is_interrupted:
        return BEATS * usual_ms
    if silence.rhythm_ms is None:
        return silence.session_ms // 2
    patience_ms = BEATS * max(silence.rhythm_ms, usual_ms)
    return max(patience_ms, silence.session_ms // 3) if client_is_there else patience_ms


def patience_for_an_id_ms(usual_ms: int) -> int:
    """Whoever was given an id uses it at once, if it lives."""
    return BEATS * usual_ms
