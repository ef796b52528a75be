"""Which segments may go, and by which clock (replication.md §2.2).

Age is counted from the largest timestamp of a segment's batches, never from file times. "Now"
is the wall clock, but a wall clock may jump: an hour forward must not delete an hour of
records early (mutant M40). So it is believed only as far as time can really have passed:

    anchor  = at the first check: the wall clock, or the newest record if that is earlier
    trusted = the smaller of the wall clock and anchor + what the monotonic clock counted since

A jump forward while we run changes nothing, a jump backward delays deletion until it is
undone. The newest record in the anchor covers a jump while we were down: a directory in which
nothing was written for a while keeps its records longer after a restart. Deleting late is the
harmless side to be wrong on.
"""

from collections.abc import Sequence

from tidelog.storage.config import UNLIMITED, LogConfig
from tidelog.storage.segment import NO_TIMESTAMP, Segment


class RetentionClock:
    """How late it is, as far as deleting is concerned. One per log directory."""

    __slots__ = ("_anchor_monotonic_ms", "_anchor_ms")

    def __init__(self, *, wall_ms: int, monotonic_ms: int, newest_timestamp: int) -> None:
        self._anchor_ms = wall_ms
        if newest_timestamp != NO_TIMESTAMP:
            self._anchor_ms = min(wall_ms, newest_timestamp)
        self._anchor_monotonic_ms = monotonic_ms

    def trusted_now(self, *, wall_ms: int, monotonic_ms: int) -> int:
        passed_ms = monotonic_ms - self._anchor_monotonic_ms
        assert passed_ms >= 0, f"monotonic clock went from {self._anchor_monotonic_ms} back"
        return min(wall_ms, self._anchor_ms + passed_ms)


def expired(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    log_start: int,
    high_watermark: int,
    now_ms: int,
) -> int:
    """How many segments, oldest first, may go: all of each is committed, and it is too old, or
    too much, or wholly below the log start."""
    total_bytes = sum(segment.size for segment in segments)
    for number, segment in enumerate(segments):
        if segment.size == 0 or segment.next_offset > high_watermark:
            return number
        too_much = config.deletes and 0 <= config.retention_bytes <= total_bytes - segment.size
        below_start = segment.next_offset <= log_start
        if not (too_much or below_start or too_old(segment, config, now_ms)):
            return number
        total_bytes -= segment.size
    return len(segments)


def too_old(segment: Segment, config: LogConfig, now_ms: int) -> bool:
    """By record time; batches without timestamps do not age. A log that is only compacted
    keeps the newest record of a key for ever."""
    if (
        not config.deletes
        or config.retention_ms == UNLIMITED
        or segment.max_timestamp == NO_TIMESTAMP
    ):
        return False
    return now_ms - segment.max_timestamp > config.retention_ms
