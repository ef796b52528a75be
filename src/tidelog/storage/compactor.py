"""Which log of a directory is compacted next, and the compaction that is under way."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tidelog.host.ports import Disk
from tidelog.storage.checkpoints import PartitionName
from tidelog.storage.compaction import (
    Compaction,
    CompactionPlan,
    CompactionProgress,
    CompactionTimes,
    is_due,
    survey,
)
from tidelog.storage.errors import CorruptSegment, StorageError
from tidelog.storage.log import Log
from tidelog.storage.repairs import Repair, Repairs


class CleanPoints(NamedTuple):
    """The clean points of a directory, which belong to its checkpoints."""

    of: Callable[[PartitionName], int]
    move: Callable[[PartitionName, int], None]


class Compactor:
    """Owned by a `LogDirectory`. One compaction at a time, in slices."""

    __slots__ = ("_clean_points", "_current", "_disk", "_logs", "_repairs", "_uncleanable")

    def __init__(
        self,
        disk: Disk,
        logs: Mapping[PartitionName, Log],
        clean_points: CleanPoints,
        repairs: Repairs,
    ) -> None:
        self._disk = disk
        self._logs = logs
        self._clean_points = clean_points
        self._repairs = repairs
        self._current: tuple[PartitionName, Compaction] | None = None
        self._uncleanable: set[PartitionName] = set()

    def step(
        self,
        times: CompactionTimes,
        high_watermarks: Mapping[PartitionName, int],
        *,
        budget_bytes: int,
        dedupe_buffer_bytes: int,
    ) -> CompactionProgress | None:
        """Clean the filthiest log, or go on with it, for about `budget_bytes` of reading. None
        if no log needs it. A log with a bad segment is noted and left alone from then on."""
        if self._current is None:
            found = self._filthiest(high_watermarks, times.trusted_now_ms)
            if found is None:
                return None
            name, plan = found
            log = self._logs[name]
            started = Compaction(
                self._disk, log, plan, times=times, dedupe_buffer_bytes=dedupe_buffer_bytes
            )
            self._current = (name, started)
        name, compaction = self._current
        try:
            finished = compaction.step(budget_bytes)
        except CorruptSegment as error:
            self._repairs.append(Repair(error, "the log is not compacted any more"))
            self._uncleanable.add(name)
            self.give_up(name)
            return self._progress(name, finished=True)
        except StorageError:
            self.give_up(name)
            raise
        if finished:
            self._current = None
            if not compaction.abandoned:
                self._clean_points.move(name, compaction.clean_point)
        return self._progress(name, finished=finished)

    def _progress(self, name: PartitionName, *, finished: bool) -> CompactionProgress:
        clean_point = self._clean_points.of(name)
        return CompactionProgress(name, finished=finished, clean_point=clean_point)

    def _filthiest(
        self, high_watermarks: Mapping[PartitionName, int], now_ms: int
    ) -> tuple[PartitionName, CompactionPlan] | None:
        """The log with the largest dirty part, of those that are dirty enough."""
        best: tuple[PartitionName, CompactionPlan] | None = None
        for name, log in self._logs.items():
            if not log.config.compacts or name in self._uncleanable:
                continue
            plan = survey(
                log,
                clean_point=self._clean_points.of(name),
                high_watermark=high_watermarks.get(name, 0),
                now_ms=now_ms,
            )
            if is_due(plan, log.config) and (best is None or plan.dirt > best[1].dirt):
                best = (name, plan)
        return best

    def give_up(self, name: PartitionName) -> None:
        """The log is closed, or goes."""
        if self._current is not None and self._current[0] == name:
            self._current[1].abandon()
            self._current = None

    def note_mended(self, name: PartitionName) -> None:
        """What was damaged can be read again."""
        self._uncleanable.discard(name)

    def forget(self, name: PartitionName) -> None:
        """Another log may come under this name."""
        self.give_up(name)
        self._uncleanable.discard(name)
