"""Retention of all logs of a directory: segments that may go, and the files of those that went.

Renaming, syncing and removing are done on an event loop, and a topic whose retention was lowered
may lose thousands of files. So a call takes a number of files and says whether more are left.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tidelog.storage.checkpoints import PartitionName
from tidelog.storage.errors import NoSpace
from tidelog.storage.log import Log
from tidelog.storage.recovery import LARGEST_OFFSET
from tidelog.storage.retention import RetentionClock
from tidelog.storage.segment import NO_TIMESTAMP

FILES_OF_A_SEGMENT = 4
EVERY_FILE = 1 << 62


class Retained(NamedTuple):
    """What one call did: how many segments went, and whether there is more to do."""

    segments: int
    has_more: bool


class StoredLogStarts(NamedTuple):
    """The log starts of a directory, which belong to its checkpoints."""

    by_name: Callable[[], Mapping[PartitionName, int]]
    write: Callable[[], None]


class Retainer:
    """Owned by a `LogDirectory`."""

    __slots__ = ("_clock", "_logs", "_starts")

    def __init__(self, logs: Mapping[PartitionName, Log], starts: StoredLogStarts) -> None:
        self._logs = logs
        self._starts = starts
        self._clock: RetentionClock | None = None

    def trusted_now(self, *, wall_ms: int, monotonic_ms: int) -> int:
        if self._clock is None:
            logs = self._logs.values()
            newest = max((log.newest_timestamp for log in logs), default=NO_TIMESTAMP)
            self._clock = RetentionClock(
                wall_ms=wall_ms, monotonic_ms=monotonic_ms, newest_timestamp=newest
            )
        return self._clock.trusted_now(wall_ms=wall_ms, monotonic_ms=monotonic_ms)

    def retain(
        self,
        logs: Mapping[PartitionName, Log],
        high_watermarks: Mapping[PartitionName, int],
        *,
        now_ms: int,
        at_most: int,
    ) -> Retained:
        """Take away the segments that may go, then remove files that went out of use a while ago,
        `at_most` so many files together."""
        most_segments = max(1, at_most // FILES_OF_A_SEGMENT)
        removed = 0
        for name, log in logs.items():
            removed += log.apply_retention(
                now_ms, high_watermarks.get(name, 0), at_most=most_segments - removed
            )
            if removed == most_segments:
                return Retained(removed, has_more=True)
        files = self.remove_files(logs, now_ms, at_most - removed * FILES_OF_A_SEGMENT)
        return Retained(removed, has_more=files == at_most - removed * FILES_OF_A_SEGMENT)

    def remove_files(
        self, logs: Mapping[PartitionName, Log], now_ms: int, at_most: int = EVERY_FILE
    ) -> int:
        """How many. A log start is stored before the last trace of the segments below it goes."""
        due = {name: log for name, log in logs.items() if log.deleted.due(now_ms)}
        if any(self._start_is_unstored(name, log) for name, log in due.items()):
            self._store_starts(due, now_ms)
        removed = 0
        for log in due.values():
            removed += log.deleted.remove_due(now_ms, at_most - removed)
        return removed

    def _store_starts(self, due: Mapping[PartitionName, Log], now_ms: int) -> None:
        try:
            self._starts.write()
        except NoSpace:
            for log in due.values():
                log.deleted.empty_due(now_ms)
            self._starts.write()

    def _start_is_unstored(self, name: PartitionName, log: Log) -> bool:
        """Whether a load would take its first segment for one that follows lost ones."""
        stored = self._starts.by_name().get(name, LARGEST_OFFSET)
        return stored < log.segments[0].base_offset
