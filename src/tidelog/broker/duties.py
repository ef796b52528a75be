"""The periodic work of a broker: in-sync checks, stalls, checkpoints, retention, compaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from tidelog.broker.answers.effective_config import effective_broker
from tidelog.broker.logs.disk_rooms import LOOK_EVERY_MS
from tidelog.host.timers import Timer
from tidelog.storage import repairs
from tidelog.storage.checkpoints import PartitionName
from tidelog.storage.errors import NoSpace, StorageError
from tidelog.storage.log_directory import LogDirectory

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.broker.logs.disk_rooms import DiskRooms
    from tidelog.broker.logs.scrubbing import Scrubbing
    from tidelog.broker.replication.hosted import Hosted
    from tidelog.broker.replication.replicas import Replicas
    from tidelog.broker.replication.stalled_replicas import StalledReplicas
    from tidelog.config.node_config import NodeConfig
    from tidelog.host.node_host import NodeHost

HOST_AGAIN_MS = 2_000
"""How soon a partition that found a full disk is tried again."""
STORE_EPOCHS_MS = 1_000
TELL_REPAIRS_MS = 1_000
COMPACTION_PAUSE_MS = 15_000
COMPACTION_SLICE_BYTES = 256 * 1024
"""A slice of compaction runs on the event loop: small enough that nobody notices."""
CHECKED_AT_ONCE = 500
"""Replicas whose followers are looked at in one turn of the loop."""
RETAINED_AT_ONCE = 32
"""Logs that retention looks at in one turn of the loop."""
REMOVED_AT_ONCE = 16
"""Files that retention renames or removes in one turn of the loop."""
BETWEEN_SLICES_MS = 5


class Duties:
    """The repeated work of one broker. A duty that fails for want of space is tried again."""

    __slots__ = (
        "_checkpointed",
        "_config",
        "_directories",
        "_host",
        "_lag_ms",
        "_metadata",
        "_replicas",
        "_retaining",
        "_rooms",
        "_scrubbing",
        "_stalled",
        "_timers",
        "_unchecked",
        "_unretained",
        "on_failure",
    )

    def __init__(
        self,
        metadata: LocalMetadata,
        replicas: Replicas,
        rooms: DiskRooms,
        scrubbing: Scrubbing,
        host: NodeHost,
        *,
        stalled: StalledReplicas,
        config: NodeConfig,
    ) -> None:
        self._metadata = metadata
        self._replicas = replicas
        self._directories = replicas.directories
        self._stalled = stalled
        self._rooms = rooms
        self._scrubbing = scrubbing
        self._host = host
        self._config = config
        self.on_failure: Callable[[Exception], None] = _raise
        """Told when a duty failed for good: the node cannot go on."""
        self._checkpointed: dict[tuple[str, int], int] = {}
        self._lag_ms = config.settings.whole("replica.lag.time.max.ms")
        self._timers: dict[Callable[[], None], Timer] = {}
        self._unretained: Iterator[tuple[LogDirectory, PartitionName]] = iter(())
        """Logs that retention has not looked at in this pass."""
        self._retaining: dict[LogDirectory, list[PartitionName]] = {}
        """Those that it looks at now; empty between passes."""
        self._unchecked: Iterator[Hosted] | None = None
        """Replicas whose followers were not looked at in this pass; None between passes."""

    def start(self) -> None:
        config = self._config
        logs = config.logs
        self._after(max(1, self._lag_ms // 2), self._check_isr)
        self._after(self._lag_ms, self._look_for_stalls)
        self._every(
            config.replication.high_watermark_checkpoint_interval_ms,
            self.checkpoint_high_watermarks,
        )
        self._every(logs.recovery_point_checkpoint_interval_ms, self._checkpoint_recovery_points)
        self._every(logs.log_start_checkpoint_interval_ms, self._checkpoint_log_starts)
        self._every(logs.retention_check_interval_ms, self._apply_retention)
        self._every(STORE_EPOCHS_MS, self._directories.store_epochs)
        self._every(TELL_REPAIRS_MS, self._tell_repairs)
        self._every(HOST_AGAIN_MS, self._replicas.host_again)
        self._every(LOOK_EVERY_MS, self._rooms.look_if_due)
        self._after(COMPACTION_PAUSE_MS, self._compact)
        self._replicas.works_beside_the_loop = True
        self._scrubbing.start()

    def stop(self) -> None:
        self._replicas.works_beside_the_loop = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._rooms.close()
        self._scrubbing.close()

    def _check_isr(self) -> None:
        """Of all replicas, some at a time. The next pass begins when this one is over."""
        if self._unchecked is None:
            self._unchecked = iter(list(self._replicas.hosted.values()))
        some = list(islice(self._unchecked, CHECKED_AT_ONCE))
        self._replicas.check_isr(some)
        if len(some) < CHECKED_AT_ONCE:
            self._unchecked = None
            self._after(max(1, self._lag_ms // 2), self._check_isr)
        else:
            self._after(BETWEEN_SLICES_MS, self._check_isr)

    def checkpoint_high_watermarks(self) -> None:
        high_watermarks = self._replicas.high_watermarks()
        if high_watermarks == self._checkpointed:
            return
        directories = self._directories
        for directory in directories.all:
            own = {
                name: high_watermarks[name] for name in directory.logs if name in high_watermarks
            }
            directory.checkpoints.note_high_watermarks(own, directory.refused)
        directories.write_checkpoints()
        self._checkpointed = high_watermarks

    def _checkpoint_recovery_points(self) -> None:
        directories = self._directories
        for directory in directories.all:
            directory.checkpoints.note_recovery_points(directory.logs, directory.refused)
        directories.write_checkpoints()
        directories.sync_all()  # where nobody waits for syncs, for the next

    def _checkpoint_log_starts(self) -> None:
        directories = self._directories
        for directory in directories.all:
            directory.checkpoints.note_log_starts(directory.logs, directory.refused)
        directories.write_checkpoints()

    def _tell_repairs(self) -> None:
        """Of files that turned out to be bad while the node runs."""
        paths = self._config.log_dirs
        for path, directory in zip(paths, self._directories.all, strict=True):
            repairs.tell(path, directory.repairs)

    def _apply_retention(self) -> None:
        """Of all logs, some at a time: segments that go are renamed and synced on the loop. A
        pass that takes longer than the interval is not begun anew."""
        if not self._retaining:
            self._unretained = iter(
                [(each, name) for each in self._directories.all for name in each.logs]
            )
            self._retaining = self._next_to_retain()
            self._retain_some()

    def _next_to_retain(self) -> dict[LogDirectory, list[PartitionName]]:
        some: dict[LogDirectory, list[PartitionName]] = {}
        for directory, name in islice(self._unretained, RETAINED_AT_ONCE):
            some.setdefault(directory, []).append(name)
        return some

    def _retain_some(self) -> None:
        """Until nothing of these logs is left to remove; then the next ones. After a failure, for
        want of space, these are left to the next pass."""
        some, self._retaining = self._retaining, {}
        has_more = False
        for directory, names in some.items():
            has_more |= self._retain(directory, names)
        self._retaining = some if has_more else self._next_to_retain()
        if self._retaining:
            self._after(BETWEEN_SLICES_MS, self._retain_some)

    def _retain(self, directory: LogDirectory, names: list[PartitionName]) -> bool:
        """True if there is more to remove."""
        clock, expiration_ms = self._host.clock, self._producer_id_expiration_ms()
        retained = directory.apply_retention(
            wall_ms=clock.wall_ms(),
            monotonic_ms=clock.monotonic_ms(),
            high_watermarks=self._replicas.high_watermarks(names),
            names=names,
            at_most=REMOVED_AT_ONCE,
        )
        for name in names:
            if name in directory.logs:
                directory.logs[name].producers.expire(clock.wall_ms(), expiration_ms)
        return retained.has_more

    def _look_for_stalls(self) -> None:
        more = self._stalled.look_on()
        self._after(BETWEEN_SLICES_MS if more else self._lag_ms // 2, self._look_for_stalls)

    def _producer_id_expiration_ms(self) -> int:
        """It can change while the broker runs."""
        value = effective_broker(self._metadata.image, self._config, "producer.id.expiration.ms")
        assert value is not None, "it has a default"
        return int(value)

    def _compact(self) -> None:
        clock, replicas = self._host.clock, self._replicas
        busy = False
        for directory in replicas.directories.all:
            progress = directory.compact_once(
                wall_ms=clock.wall_ms(),
                monotonic_ms=clock.monotonic_ms(),
                high_watermarks=replicas.high_watermarks(),
                budget_bytes=COMPACTION_SLICE_BYTES,
            )
            busy = busy or progress is not None
        self._after(BETWEEN_SLICES_MS if busy else COMPACTION_PAUSE_MS, self._compact)

    def _every(self, interval_ms: int, work: Callable[[], None]) -> None:
        def again() -> None:
            work()
            self._every(interval_ms, work)

        again.__name__ = work.__name__
        self._timers[work] = self._timer(interval_ms, again)

    def _after(self, delay_ms: int, work: Callable[[], None]) -> None:
        self._timers[work] = self._timer(delay_ms, work)

    def _timer(self, delay_ms: int, work: Callable[[], None]) -> Timer:
        def guarded() -> None:
            self._host.work.begin(work.__name__, len(self._replicas.hosted), "partitions")
            try:
                work()
            except NoSpace:
                self._timer(delay_ms, work)  # reads and deletes go on meanwhile
            except StorageError as error:
                self.on_failure(error)
            finally:
                self._host.work.end()

        return self._host.timers.after(delay_ms, guarded)


def _raise(error: Exception) -> None:
    raise error
