"""One log directory: every log on one disk, its checkpoints, its owner and its health.

Group commit: appends of all logs go to the page cache and the logs note that they are
unsynced; one pass makes all of them durable. Who waits for durability waits for a pass that
began after the append. A node starts a pass, runs it on another thread and finishes it
(`start_sync`); `sync_dirty` is the same in one step.

Failure: the first failed sync takes the whole directory offline (guarded_disk). Every log in
it then refuses every operation with DirectoryOffline until a new process starts on it.

Bad files at load: a checkpoint that cannot be read is replaced by the value that is safe to
assume, and noted in `repairs`. A log whose synced records are bad is not opened: it stands in
`refused`, and `repair` opens it once it is known that another replica has the records.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from tidelog.host.ports import Disk
from tidelog.storage import (
    checkpoints,
    clean_shutdown,
    intact_mark,
    meta_properties,
    partition_metadata,
)
from tidelog.storage.atomic_file import TEMPORARY_SUFFIX, discard, discard_tree, join
from tidelog.storage.checkpoints import PartitionName
from tidelog.storage.compaction import (
    DEDUPE_BUFFER_BYTES,
    SLICE_BYTES,
    CompactionProgress,
    CompactionTimes,
)
from tidelog.storage.compactor import CleanPoints, Compactor
from tidelog.storage.config import LogConfig
from tidelog.storage.directory_names import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    METADATA,
    STRAY_SUFFIX,
    aside,
    directory_of,
    parse_directory,
)
from tidelog.storage.errors import (
    CorruptFile,
    CorruptSegment,
    DirectoryLocked,
    DirectoryOffline,
    NoSpace,
)
from tidelog.storage.group_commit import PendingPass, start_pass
from tidelog.storage.guarded_disk import GuardedDisk, guard
from tidelog.storage.log import Log
from tidelog.storage.new_logs import Made, NewLog, NewLogs, RunAll, make_all
from tidelog.storage.recovery import LARGEST_OFFSET
from tidelog.storage.repairs import Repair, Repairs
from tidelog.storage.retention import RetentionClock
from tidelog.storage.segment import LOG_SUFFIX, NO_TIMESTAMP
from tidelog.storage.stored_offsets import missing_logs, stored_offsets
from tidelog.storage.unstored_epochs import UnstoredEpochs

ConfigOf = Callable[[str], LogConfig]
"""The settings of a topic, by name."""

_NO_ID = "no-id"
BEGINS_ANEW = "the replica begins anew and fetches everything from the leader"


class LogDirectory:
    """All logs of one disk. Owned by the shell of one node."""

    __slots__ = (
        "_clean_points",
        "_clean_points_are_lost",
        "_clock",
        "_compactor",
        "_config_of",
        "_disk",
        "_high_watermarks",
        "_intact_epoch",
        "_lock",
        "_stored_log_starts",
        "_stored_recovery_points",
        "broker_epoch_at_stop",
        "dirty",
        "logs",
        "properties",
        "refused",
        "repairs",
        "topic_ids",
        "unstored",
    )

    def __init__(
        self,
        disk: GuardedDisk,
        config_of: ConfigOf,
        properties: meta_properties.MetaProperties,
        broker_epoch_at_stop: int | None,
        repairs: Repairs,
    ) -> None:
        """Use `open`."""
        self._disk = disk
        self._config_of = config_of
        self._clock: RetentionClock | None = None
        self._lock: meta_properties.Lock | None = None
        self.properties = properties
        self.broker_epoch_at_stop = broker_epoch_at_stop
        self.logs: dict[PartitionName, Log] = {}
        self.topic_ids: dict[PartitionName, bytes] = {}
        self.refused: dict[PartitionName, CorruptSegment] = {}
        self.dirty: dict[str, Log] = {}
        self.unstored = UnstoredEpochs(disk)
        self.repairs = repairs
        stored = partial(
            stored_offsets, disk, stopped_in_order=broker_epoch_at_stop is not None, repairs=repairs
        )
        self._stored_recovery_points = stored(checkpoints.RECOVERY_POINTS)
        self._stored_log_starts = stored(checkpoints.LOG_STARTS)
        self._high_watermarks = stored(checkpoints.HIGH_WATERMARKS)
        known_repairs = len(repairs)
        self._clean_points = stored(checkpoints.CLEAN_POINTS)
        self._clean_points_are_lost = len(repairs) > known_repairs
        self._intact_epoch = broker_epoch_at_stop
        if self._intact_epoch is None:
            self._intact_epoch = intact_mark.read_mark(disk, properties.directory_id, repairs)
        points = CleanPoints(self.clean_point, self._move_clean_point)
        self._compactor = Compactor(disk, self.logs, points, repairs)

    @classmethod
    def open(
        cls,
        disk: Disk,
        config_of: ConfigOf,
        *,
        cluster_id: str,
        node_id: int,
        lock: meta_properties.Lock | None = None,
    ) -> "LogDirectory":
        """Load every log in it. Refuses a directory that is not formatted, or not ours.

        `broker_epoch_at_stop` is the proof of an orderly stop, None after a crash.
        """
        if lock is not None and not lock.acquire():
            raise DirectoryLocked("another process uses this log directory")
        guarded = guard(disk)
        properties = meta_properties.require_owner(guarded, cluster_id=cluster_id, node_id=node_id)
        repairs: Repairs = []
        marker = clean_shutdown.take_marker(guarded, repairs)
        directory = cls(guarded, config_of, properties, marker, repairs)
        directory._lock = lock
        entries = guarded.list("")
        for entry in entries:
            name = parse_directory(entry)
            if entry.endswith(TEMPORARY_SUFFIX):
                discard(guarded, entry)
            elif entry.endswith((DELETE_SUFFIX, FUTURE_SUFFIX)):
                discard_tree(guarded, entry)  # a log that was moving in is still where it was
            elif name is not None and name != METADATA:  # the quorum's: storage.metadata_log
                directory._load(name)
        for lost in missing_logs(entries, directory._stored_recovery_points, directory.topic_ids):
            repairs.append(Repair(lost, BEGINS_ANEW))
            directory.forget_intact()
        with suppress(NoSpace):
            directory._remove_deleted_files(0)  # a crash came before it
        if marker is None:
            guarded.sync_dir("")  # a crash may have come between the making of logs and that
        return directory

    @property
    def online(self) -> bool:
        return self._disk.online

    @property
    def failure(self) -> DirectoryOffline | None:
        """Why it is offline."""
        return self._disk.failure

    # Logs

    def _load(self, name: PartitionName) -> None:
        path = directory_of(name)
        try:
            topic_id = partition_metadata.read_topic_id(
                self._disk, join(path, partition_metadata.FILE_NAME)
            )
            reason = CorruptFile(join(path, partition_metadata.FILE_NAME), "byte 0", "it is gone")
        except CorruptFile as error:
            reason, topic_id = error, None
        if topic_id is None:
            self._set_aside(name, _NO_ID, reason)
            return
        self.topic_ids[name] = topic_id
        try:
            self._open_log(name, clean=self.broker_epoch_at_stop is not None, repair=False)
        except CorruptSegment as error:
            self.forget_intact()
            self.refused[name] = error

    def _open_log(self, name: PartitionName, *, clean: bool, repair: bool) -> Log:
        log = Log.open(
            self._disk,
            directory_of(name),
            self._config_of(name[0]),
            recovery_point=self._stored_recovery_points.get(name, 0),
            log_start=self._stored_log_starts.get(name, 0),
            knows_start=name in self._stored_log_starts,
            clean_shutdown=clean,
            repair=repair,
            gaps=self._may_have_gaps(name),
            repairs=self.repairs,
        )
        try:
            log.recall_ended_transactions(self._high_watermarks.get(name, 0))
        except CorruptSegment:
            log.release()
            raise
        return self._take_over(name, log)

    def _take_over(self, name: PartitionName, log: Log) -> Log:
        log.on_gaps_allowed = self._on_gaps_allowed
        log.before_truncation = self._before_truncation
        log.on_log_start_raised = self._on_log_start_raised
        log.on_unsynced = self._on_unsynced
        self.unstored.watch(log)
        self.logs[name] = log
        if not log.is_synced:
            self._on_unsynced(log)
        return log

    def create_log(self, name: PartitionName, topic_id: bytes) -> Log:
        """A new, empty log with a durable topic id. NoSpace: there is none, try again."""
        made = self.create_logs({name: topic_id}, map)[name]
        if isinstance(made, NoSpace):
            raise made
        return made

    def create_logs(self, new: NewLogs, run_all: RunAll) -> dict[PartitionName, Made]:
        """The same for many: `run_all` may make them on several threads."""
        return self.take_over_made(new, make_all(self.orders_for(new), run_all))

    def orders_for(self, new: NewLogs) -> list[NewLog]:
        """For `make_all`, on any thread; then `take_over_made`."""
        return [self._new_log(name, topic_id) for name, topic_id in new.items()]

    def take_over_made(self, new: NewLogs, made: Sequence[Made]) -> dict[PartitionName, Made]:
        for name, log in zip(new, made, strict=True):
            if isinstance(log, Log):
                self.topic_ids[name] = new[name]
                self._take_over(name, log)
        return dict(zip(new, made, strict=True))

    def _new_log(self, name: PartitionName, topic_id: bytes) -> NewLog:
        assert name not in self.logs, f"{name} exists"
        self._forget_promises(name)
        config, gaps = self._config_of(name[0]), self._may_have_gaps(name)
        return NewLog(self._disk, directory_of(name), topic_id, config, gaps, self.repairs)

    def _may_have_gaps(self, name: PartitionName) -> bool:
        if self._clean_points_are_lost:
            self._clean_points.setdefault(name, 0)
        return name in self._clean_points

    def repair(self, name: PartitionName) -> Log:
        """Open a refused log, cut before its first bad record. Only when another replica has
        the records that go: they are fetched again."""
        error = self.refused[name]
        done = f"cut there, records from offset {error.offset} on are fetched again from the leader"
        self.repairs.append(Repair(error, done))
        self.forget_intact()
        self._stored_recovery_points[name] = min(
            self._stored_recovery_points.get(name, 0), error.offset
        )
        self._write_recovery_points()
        log = self._open_log(name, clean=False, repair=True)
        del self.refused[name]
        return log

    def delete_log(self, name: PartitionName) -> None:
        """The log is gone for good when this returns, whatever happens next: it loses its name
        in one step, and only then its files."""
        unique = self.topic_ids.pop(name).hex()
        target = self._take_out_of_service(name, unique, DELETE_SUFFIX)
        discard_tree(self._disk, target)

    def set_aside_stray(self, name: PartitionName) -> str:
        """Metadata does not know this log, or not here: keep the records, do not serve them.
        The new name of its directory."""
        return self._take_out_of_service(name, self.topic_ids.pop(name).hex(), STRAY_SUFFIX)

    def note_mended(self, name: PartitionName) -> None:
        """Its damage is gone: it may be compacted again."""
        self._compactor.note_mended(name)

    # Logs that move in from another directory

    def make_future(self, name: PartitionName, topic_id: bytes) -> Log:
        """An empty log beside those in service, for what another directory has of this name."""
        path = aside(name, topic_id.hex(), FUTURE_SUFFIX)
        order = NewLog(self._disk, path, topic_id, self._config_of(name[0]), False, self.repairs)
        (made,) = make_all([order], map)
        if isinstance(made, NoSpace):
            raise made
        return made

    def drop_future(self, future: Log) -> None:
        future.release()
        discard_tree(self._disk, future.directory)

    def take_future(
        self, name: PartitionName, topic_id: bytes, future: Log, high_watermark: int
    ) -> Log:
        """It has all records of the log it was made for: put it in service. Until the other one
        is deleted there are two, and a process that starts then keeps one of them."""
        assert name not in self.topic_ids, f"{name} is in service here"
        future.close()
        self._high_watermarks[name] = high_watermark
        if future.may_have_gaps:
            self._move_clean_point(name, 0)
        if future.log_start_offset > future.segments[0].base_offset:
            self._stored_log_starts[name] = future.log_start_offset
            self._write_log_starts()
        self._disk.rename(future.directory, directory_of(name))
        self._disk.sync_dir("")
        self.topic_ids[name] = topic_id
        # Not before: a recovery point without a log would be taken for a log that was lost.
        self._stored_recovery_points[name] = future.recovery_point
        with suppress(NoSpace):  # without it the next start looks at the whole log
            self._write_recovery_points()
        return self._open_log(name, clean=True, repair=False)

    def _take_out_of_service(self, name: PartitionName, unique: str, suffix: str) -> str:
        log = self.logs.pop(name, None)
        self._compactor.forget(name)
        if log is not None:
            self.dirty.pop(log.directory, None)
            self.unstored.forget(log)
            log.release()
        self.refused.pop(name, None)
        target = aside(name, unique, suffix)
        self._disk.rename(directory_of(name), target)
        self._disk.sync_dir("")
        self._forget_promises(name)
        return target

    def _set_aside(self, name: PartitionName, unique: str, reason: CorruptFile) -> None:
        """A directory without a topic id: made by a process that died at once if it holds no
        records, else something we do not understand and therefore keep."""
        path = directory_of(name)
        if any(entry.endswith(LOG_SUFFIX) for entry in self._disk.list(path)):
            self.forget_intact()
            target = self._take_out_of_service(name, unique, STRAY_SUFFIX)
            self.repairs.append(Repair(reason, f"kept as {target}, {BEGINS_ANEW}"))
        else:
            discard_tree(self._disk, path)

    # Durability

    def sync_dirty(self) -> int:
        """One pass of group commit: every log with unsynced appends is synced once. How many
        there were. DirectoryOffline when a sync failed: then none of them may be trusted."""
        self._disk.refuse_if_offline()
        pending, self.dirty = self.dirty, {}
        for log in pending.values():
            log.sync()
        return len(pending)

    def start_sync(self) -> PendingPass | None:
        """A pass over logs that are dirty now; None if none is. `run` it on another thread, then
        `finish_sync`. One pass at a time: who is written to meanwhile stays dirty."""
        self._disk.refuse_if_offline()
        return start_pass(self.dirty)

    def finish_sync(self, pending: PendingPass, error: OSError | None) -> list[Log]:
        """The logs whose durable offset has moved since the pass began. DirectoryOffline when it
        failed: then nothing has moved, and none of them may be trusted."""
        self._disk.sync_ended("", error)
        moved = []
        for log, part in pending.parts:
            name = parse_directory(log.directory)
            if name is None or self.logs.get(name) is not log:
                continue  # deleted, and perhaps made anew
            if log.finish_sync(part, None):
                moved.append(log)
            if log.is_synced:
                self.dirty.pop(log.directory, None)
        return moved

    def _on_unsynced(self, log: Log) -> None:
        self.dirty[log.directory] = log

    # The proof that a crash lost nothing (ADR 0006)

    def intact_since_epoch(self) -> int:
        """The incarnation of this broker whose acknowledged records are all here; -1 if that is
        not known. To be presented at the next registration."""
        proven = self.broker_epoch_at_stop is not None or self._acknowledges_synced()
        if self._intact_epoch is None or self.refused or not proven:
            return clean_shutdown.NO_BROKER_EPOCH
        return self._intact_epoch

    def note_registered(self, broker_epoch: int) -> None:
        """A new incarnation begins. Where acknowledged means synced it may call itself intact
        from now on; elsewhere only an orderly stop proves that. On a full disk the mark of the
        former incarnation stays, which nobody takes for this one's."""
        if not self._acknowledges_synced() or self.refused:
            self.forget_intact()
            return
        with suppress(NoSpace):
            intact_mark.write_mark(self._disk, broker_epoch, self.properties.directory_id)
            self._intact_epoch = broker_epoch

    def forget_intact(self) -> None:
        """Synced records turned out to be gone. Durable when it returns, so call it before the
        log is cut."""
        self._intact_epoch = None
        intact_mark.remove_mark(self._disk)

    def _acknowledges_synced(self) -> bool:
        """`ack.durability` is the same for all topics of a node."""
        configs = [self._config_of(METADATA[0]), *(log.config for log in self.logs.values())]
        return all(config.durability == "fsync" for config in configs)

    # Checkpoints

    def checkpoint_recovery_points(self) -> None:
        """What is known to be synced; nothing is synced for it."""
        points = {name: log.storable_recovery_point for name, log in self.logs.items()}
        self._stored_recovery_points = self._with_refused(points, self._stored_recovery_points)
        self._write_recovery_points()

    def checkpoint_log_starts(self) -> None:
        """Of all logs: a log whose first segment is gone must not seem to start later."""
        starts = {name: log.log_start_offset for name, log in self.logs.items()}
        self._store_log_starts(self._with_refused(starts, self._stored_log_starts))

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[PartitionName, int]) -> None:
        self._high_watermarks = self._with_refused(dict(high_watermarks), self._high_watermarks)
        checkpoints.write_offsets(self._disk, checkpoints.HIGH_WATERMARKS, self._high_watermarks)

    def initial_high_watermark(self, name: PartitionName) -> int:
        """What a replica begins with: as checkpointed, but inside the log. Never a reason to
        truncate: the records above may be committed without our knowing (KIP-101)."""
        log = self.logs[name]
        stored = self._high_watermarks.get(name, 0)
        return max(log.log_start_offset, min(stored, log.log_end_offset))

    def _with_refused(
        self, offsets: dict[PartitionName, int], stored: Mapping[PartitionName, int]
    ) -> dict[PartitionName, int]:
        """What is on disk about logs we could not open stays as it is."""
        for name in self.refused:
            if name in stored:
                offsets[name] = stored[name]
        return offsets

    def _before_truncation(self, log: Log) -> None:
        """Take back promises that the truncation is about to make untrue."""
        name = parse_directory(log.directory)
        assert name is not None, log.directory
        if self._stored_recovery_points.get(name, 0) > log.recovery_point:
            self._stored_recovery_points[name] = log.recovery_point
            self._write_recovery_points()
        if self._stored_log_starts.get(name, 0) > log.log_start_offset:
            self._stored_log_starts[name] = log.log_start_offset
            self._write_log_starts()
        if self._clean_points.get(name, 0) > log.recovery_point:
            self._clean_points[name] = log.recovery_point
            self._write_clean_points()

    def _on_gaps_allowed(self, log: Log) -> None:
        """A log that is named in this checkpoint may have gaps."""
        name = parse_directory(log.directory)
        assert name is not None, log.directory
        self._clean_points.setdefault(name, 0)
        self._write_clean_points()

    def _on_log_start_raised(self, log: Log) -> None:
        name = parse_directory(log.directory)
        assert name is not None, log.directory
        if log.size_bytes == 0 and name not in self._stored_log_starts:
            return  # a new replica: nothing can be lost, and thousands of them may begin at once
        self._store_log_starts({**self._stored_log_starts, name: log.log_start_offset})

    def _forget_promises(self, name: PartitionName) -> None:
        """A deleted log must not leave a recovery point to the next one of its name."""
        if self._stored_recovery_points.pop(name, None) is not None:
            self._write_recovery_points()
        if self._stored_log_starts.pop(name, None) is not None:
            self._write_log_starts()
        if self._clean_points.pop(name, None) is not None:
            self._write_clean_points()
        if self._high_watermarks.pop(name, None) is not None:
            checkpoints.write_offsets(
                self._disk, checkpoints.HIGH_WATERMARKS, self._high_watermarks
            )

    def _write_recovery_points(self) -> None:
        checkpoints.write_offsets(
            self._disk, checkpoints.RECOVERY_POINTS, self._stored_recovery_points
        )

    def _write_log_starts(self) -> None:
        self._store_log_starts(self._stored_log_starts)

    def _store_log_starts(self, starts: dict[PartitionName, int]) -> None:
        """What we believe to be stored is: on a full disk it stays as it was."""
        checkpoints.write_offsets(self._disk, checkpoints.LOG_STARTS, starts)
        self._stored_log_starts = starts

    def _write_clean_points(self) -> None:
        checkpoints.write_offsets(self._disk, checkpoints.CLEAN_POINTS, self._clean_points)

    # Retention

    def apply_retention(
        self, *, wall_ms: int, monotonic_ms: int, high_watermarks: Mapping[PartitionName, int]
    ) -> int:
        """Remove what may go from every log. How many segments went."""
        now_ms = self._trusted_now(wall_ms=wall_ms, monotonic_ms=monotonic_ms)
        removed = 0
        for name, log in self.logs.items():
            removed += log.apply_retention(now_ms, high_watermarks.get(name, 0))
        self._remove_deleted_files(now_ms)
        return removed

    def _remove_deleted_files(self, now_ms: int) -> None:
        """A log start is stored before the last trace of the segments below it goes."""
        due = {name: log for name, log in self.logs.items() if log.deleted.due(now_ms)}
        if any(self._start_is_unstored(name, log) for name, log in due.items()):
            try:
                self.checkpoint_log_starts()
            except NoSpace:
                for log in due.values():
                    log.deleted.empty_due(now_ms)
                self.checkpoint_log_starts()
        for log in due.values():
            log.remove_deleted_files(now_ms)

    def _start_is_unstored(self, name: PartitionName, log: Log) -> bool:
        """Whether a load would take its first segment for one that follows lost ones."""
        return self._stored_log_starts.get(name, LARGEST_OFFSET) < log.segments[0].base_offset

    def _trusted_now(self, *, wall_ms: int, monotonic_ms: int) -> int:
        if self._clock is None:
            newest = max((log.newest_timestamp for log in self.logs.values()), default=NO_TIMESTAMP)
            self._clock = RetentionClock(
                wall_ms=wall_ms, monotonic_ms=monotonic_ms, newest_timestamp=newest
            )
        return self._clock.trusted_now(wall_ms=wall_ms, monotonic_ms=monotonic_ms)

    # Compaction

    def clean_point(self, name: PartitionName) -> int:
        """Below it every key has one record in the log, at most."""
        return self._clean_points.get(name, 0)

    def _move_clean_point(self, name: PartitionName, offset: int) -> None:
        self._clean_points[name] = offset
        self._write_clean_points()

    def compact_once(
        self,
        *,
        wall_ms: int,
        monotonic_ms: int,
        high_watermarks: Mapping[PartitionName, int],
        budget_bytes: int = SLICE_BYTES,
        dedupe_buffer_bytes: int = DEDUPE_BUFFER_BYTES,
    ) -> CompactionProgress | None:
        """Go on with compaction for about `budget_bytes` of reading; None if no log needs it."""
        now_ms = self._trusted_now(wall_ms=wall_ms, monotonic_ms=monotonic_ms)
        return self._compactor.step(
            CompactionTimes(wall_ms=wall_ms, trusted_now_ms=now_ms),
            high_watermarks,
            budget_bytes=budget_bytes,
            dedupe_buffer_bytes=dedupe_buffer_bytes,
        )

    # End

    def close(self, *, broker_epoch: int, high_watermarks: Mapping[PartitionName, int]) -> None:
        """An orderly stop: logs, then checkpoints, then the proof. Without the proof if a log
        could not be opened: it was not closed in order."""
        for name, log in self.logs.items():
            self._compactor.give_up(name)
            log.close()
        self.dirty.clear()
        self.checkpoint_recovery_points()
        self.checkpoint_log_starts()
        self.checkpoint_high_watermarks(high_watermarks)
        if not self.refused:
            clean_shutdown.write_marker(self._disk, broker_epoch)
        if self._lock is not None:
            self._lock.release()
