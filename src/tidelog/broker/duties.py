"""What a broker does by the clock: in-sync checks, stalls, checkpoints, retention, compaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from tidelog.broker.answers.effective_config import effective_broker
from tidelog.broker.logs.disk_rooms import LOOK_EVERY_MS
from tidelog.broker.replication.stalled_replicas import StalledReplicas
from tidelog.host.timers import Timer
from tidelog.storage import repairs
from tidelog.storage.checkpoints import PartitionName
from tidelog.storage.errors import NoSpace, StorageError
from tidelog.storage.log_directory import LogDirectory

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

HOST_AGAIN_MS = 2_000
"""How soon a partition that found a full disk is tried again."""
STORE_EPOCHS_MS = 1_000
TELL_REPAIRS_MS = 1_000
COMPACTION_PAUSE_MS = 15_000
COMPACTION_SLICE_BYTES = 256 * 1024
"""A slice of compaction runs on the event loop: small enough that nobody notices."""
RETAINED_AT_ONCE = 32
"""Logs that retention looks at in one turn of the loop."""
BETWEEN_SLICES_MS = 5


class Duties:
    """The repeated work of one broker. A duty that fails for want of space is tried again."""

    __slots__ = (
        "_broker",
        "_checkpointed",
        "_lag_ms",
        "_on_failure",
        "_retained",
        "_stalled",
        "_timers",
    )

    def __init__(self, broker: Broker, on_failure: Callable[[Exception], None]) -> None:
        self._broker = broker
        self._on_failure = on_failure
        self._checkpointed: dict[tuple[str, int], int] = {}
        self._lag_ms = broker.config.settings.whole("replica.lag.time.max.ms")
        self._stalled = StalledReplicas(broker)
        self._timers: dict[Callable[[], None], Timer] = {}
        self._retained: Iterator[tuple[LogDirectory, PartitionName]] = iter(())
        """Logs that retention has not looked at in this pass."""

    def start(self) -> None:
        config = self._broker.config
        logs = config.logs
        self._every(max(1, self._lag_ms // 2), self._broker.replicas.check_isr)
        self._after(self._lag_ms, self._look_for_stalls)
        self._every(
            config.replication.high_watermark_checkpoint_interval_ms,
            self.checkpoint_high_watermarks,
        )
        self._every(logs.recovery_point_checkpoint_interval_ms, self._checkpoint_recovery_points)
        self._every(logs.log_start_checkpoint_interval_ms, self._checkpoint_log_starts)
        self._every(logs.retention_check_interval_ms, self._apply_retention)
        self._every(STORE_EPOCHS_MS, self._broker.replicas.directories.store_epochs)
        self._every(TELL_REPAIRS_MS, self._tell_repairs)
        self._every(HOST_AGAIN_MS, self._broker.replicas.host_again)
        self._every(LOOK_EVERY_MS, self._broker.rooms.look)
        self._after(COMPACTION_PAUSE_MS, self._compact)
        self._broker.replicas.works_beside_the_loop = True
        self._broker.scrubbing.start()

    def stop(self) -> None:
        self._broker.replicas.works_beside_the_loop = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._broker.rooms.close()
        self._broker.scrubbing.close()

    def checkpoint_high_watermarks(self) -> None:
        high_watermarks = self._broker.replicas.high_watermarks()
        if high_watermarks == self._checkpointed:
            return
        directories = self._broker.replicas.directories
        for directory in directories.all:
            own = {
                name: high_watermarks[name] for name in directory.logs if name in high_watermarks
            }
            directory.checkpoints.note_high_watermarks(own, directory.refused)
        directories.write_checkpoints()
        self._checkpointed = high_watermarks

    def _checkpoint_recovery_points(self) -> None:
        directories = self._broker.replicas.directories
        for directory in directories.all:
            directory.checkpoints.note_recovery_points(directory.logs, directory.refused)
        directories.write_checkpoints()
        directories.sync_all()  # where nobody waits for syncs, for the next

    def _checkpoint_log_starts(self) -> None:
        directories = self._broker.replicas.directories
        for directory in directories.all:
            directory.checkpoints.note_log_starts(directory.logs, directory.refused)
        directories.write_checkpoints()

    def _tell_repairs(self) -> None:
        """Of files that turned out to be bad while the node runs."""
        paths = self._broker.config.log_dirs
        for path, directory in zip(paths, self._broker.replicas.directories.all, strict=True):
            repairs.tell(path, directory.repairs)

    def _apply_retention(self) -> None:
        """Of all logs, some at a time: segments that go are renamed and synced on the loop."""
        self._retained = iter(
            [
                (directory, name)
                for directory in self._broker.replicas.directories.all
                for name in directory.logs
            ]
        )
        self._retain_some()

    def _retain_some(self) -> None:
        clock, replicas = self._broker.host.clock, self._broker.replicas
        expiration_ms = self._producer_id_expiration_ms()
        some: dict[LogDirectory, list[PartitionName]] = {}
        for directory, name in islice(self._retained, RETAINED_AT_ONCE):
            some.setdefault(directory, []).append(name)
        if some:
            self._after(BETWEEN_SLICES_MS, self._retain_some)
        for directory, names in some.items():
            directory.apply_retention(
                wall_ms=clock.wall_ms(),
                monotonic_ms=clock.monotonic_ms(),
                high_watermarks=replicas.high_watermarks(names),
                names=names,
            )
            for name in names:
                if name in directory.logs:
                    directory.logs[name].producers.expire(clock.wall_ms(), expiration_ms)

    def _look_for_stalls(self) -> None:
        more = self._stalled.look_on()
        self._after(BETWEEN_SLICES_MS if more else self._lag_ms // 2, self._look_for_stalls)

    def _producer_id_expiration_ms(self) -> int:
        """It can change while the broker runs."""
        broker = self._broker
        value = effective_broker(broker.image, broker.config, "producer.id.expiration.ms")
        assert value is not None, "it has a default"
        return int(value)

    def _compact(self) -> None:
        clock, replicas = self._broker.host.clock, self._broker.replicas
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
        broker = self._broker

        def guarded() -> None:
            broker.host.work.begin(work.__name__, len(broker.replicas.hosted), "partitions")
            try:
                work()
            except NoSpace:
                self._timer(delay_ms, guarded)  # reads and deletes go on meanwhile
            except StorageError as error:
                self._on_failure(error)
            finally:
                broker.host.work.end()

        return self._broker.host.timers.after(delay_ms, guarded)
