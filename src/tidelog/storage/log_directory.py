"""One log directory: every log on one disk, its checkpoints, its owner and its health.

Group commit: appends of all logs go to the page cache and the logs note that they are
unsynced; one pass makes all of them durable. Who waits for durability waits for a pass that
began after the append. A node starts a pass, runs it on another thread and finishes it
(`start_sync`); `sync_dirty` is the same in one step.

Failure: the first failed sync takes the whole directory offline (guarded_disk). Every log in
it then refuses every operation with DirectoryOffline until a new process starts on it.

Bad files at load: a checkpoint that cannot be read is replaced by the value that is safe to
assume, and noted in `repairs`. A log whose synced records are bad is not opened: it stands in
`refused`. `repair` opens it when another replica leads, `open_again` when its records are back.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice

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
from tidelog.storage.offset_checkpoints import OffsetCheckpoint, OffsetCheckpoints
from tidelog.storage.prefix_restoring import restored_base
from tidelog.storage.removal import Removal, discard_files, take_names_away
from tidelog.storage.repairs import Repair, Repairs
from tidelog.storage.retainer import EVERY_FILE, Retained, Retainer, StoredLogStarts
from tidelog.storage.segment import LOG_SUFFIX
from tidelog.storage.stored_offsets import missing_logs, stored_offsets
from tidelog.storage.unstored_epochs import UnstoredEpochs

ConfigOf = Callable[[str], LogConfig]
"""The settings of a topic, by name."""

_NO_ID = "no-id"
BEGINS_ANEW = "the replica begins anew and fetches everything from the leader"


def _nobody_hears() -> None:
    pass


class LogDirectory:
    """All logs of one disk. Owned by the shell of one node."""

    __slots__ = (
        "_clean_points_are_lost",
        "_compactor",
        "_config_of",
        "_disk",
        "_intact_epoch",
        "_lock",
        "_retainer",
        "broker_epoch_at_stop",
        "checkpoints",
        "dirty",
        "leaving",
        "logs",
        "on_rolled",
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
        self._lock: meta_properties.Lock | None = None
        self.properties = properties
        self.broker_epoch_at_stop = broker_epoch_at_stop
        self.logs: dict[PartitionName, Log] = {}
        self.topic_ids: dict[PartitionName, bytes] = {}
        self.refused: dict[PartitionName, CorruptSegment] = {}
        self.dirty: dict[str, Log] = {}
        self.unstored = UnstoredEpochs(disk)
        self.repairs = repairs
        self.on_rolled: Callable[[], None] = _nobody_hears
        """A segment was rolled away, whatever the mode: a pass of group commit is due."""
        self.leaving: dict[PartitionName, Removal] = {}
        """Logs that were taken out of service and whose directories still have their names."""

        def checkpoint(path: str) -> OffsetCheckpoint:
            stopped_in_order = broker_epoch_at_stop is not None
            offsets = stored_offsets(disk, path, stopped_in_order=stopped_in_order, repairs=repairs)
            return OffsetCheckpoint(disk, path, offsets)

        self.checkpoints = OffsetCheckpoints(
            checkpoint(checkpoints.RECOVERY_POINTS),
            checkpoint(checkpoints.LOG_STARTS),
            checkpoint(checkpoints.HIGH_WATERMARKS),
            checkpoint(checkpoints.CLEAN_POINTS),
        )
        self._clean_points_are_lost = any(
            repair.fault.path == checkpoints.CLEAN_POINTS for repair in repairs
        )
        self._intact_epoch = broker_epoch_at_stop
        if self._intact_epoch is None:
            self._intact_epoch = intact_mark.read_mark(disk, properties.directory_id, repairs)
        points = CleanPoints(self.clean_point, self.checkpoints.clean_points.store)
        self._compactor = Compactor(disk, self.logs, points, repairs)
        log_starts = self.checkpoints.log_starts
        starts = StoredLogStarts(lambda: log_starts.stored, self.checkpoint_log_starts)
        self._retainer = Retainer(self.logs, starts)

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
        for lost in missing_logs(
            entries, directory.checkpoints.recovery_points.offsets, directory.topic_ids
        ):
            repairs.append(Repair(lost, BEGINS_ANEW))
            directory.forget_intact()
        with suppress(NoSpace):
            directory._retainer.remove_files(directory.logs, 0)  # a crash came before it
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
        path = join(directory_of(name), partition_metadata.FILE_NAME)
        try:
            topic_id = partition_metadata.read_topic_id(self._disk, path)
            reason = CorruptFile(path, "byte 0", "it is gone")
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
        gaps = self.may_have_gaps(name)
        restored = restored_base(self._disk, directory_of(name)) if gaps else None
        if restored is not None:
            self.checkpoints.clean_points.lower(name, restored)
        log = Log.open(
            self._disk,
            directory_of(name),
            self._config_of(name[0]),
            recovery_point=self.checkpoints.recovery_points.get(name),
            log_start=self.checkpoints.log_starts.get(name),
            knows_start=name in self.checkpoints.log_starts.offsets,
            clean_shutdown=clean,
            repair=repair,
            gaps=gaps,
            repairs=self.repairs,
        )
        try:
            log.recall_ended_transactions(self.checkpoints.high_watermarks.get(name))
        except CorruptSegment:
            log.release()
            raise
        return self._take_over(name, log)

    def _take_over(self, name: PartitionName, log: Log) -> Log:
        log.on_gaps_allowed = self.checkpoints.on_gaps_allowed
        log.before_truncation = self.checkpoints.before_truncation
        log.on_log_start_raised = self.checkpoints.on_log_start_raised
        log.on_unsynced = self._on_unsynced
        log.on_rolled = self._on_rolled
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
        orders = self.orders_for(new)
        self.checkpoints.write()
        return self.take_over_made(new, make_all(orders, run_all))

    def orders_for(self, new: NewLogs) -> list[NewLog]:
        """For `make_all`, on any thread, when `checkpoints` is written; then `take_over_made`."""
        return [self._new_log(name, topic_id) for name, topic_id in new.items()]

    def take_over_made(self, new: NewLogs, made: Sequence[Made]) -> dict[PartitionName, Made]:
        for name, log in zip(new, made, strict=True):
            if isinstance(log, Log):
                self.topic_ids[name] = new[name]
                self._take_over(name, log)
        return dict(zip(new, made, strict=True))

    def _new_log(self, name: PartitionName, topic_id: bytes) -> NewLog:
        assert name not in self.logs, f"{name} exists"
        assert name not in self.leaving, f"the directory of {name} is still there"
        self.checkpoints.forget(name)
        config, gaps = self._config_of(name[0]), self.may_have_gaps(name)
        return NewLog(self._disk, directory_of(name), topic_id, config, gaps, self.repairs)

    def may_have_gaps(self, name: PartitionName) -> bool:
        clean_points = self.checkpoints.clean_points
        if self._clean_points_are_lost and name not in clean_points.offsets:
            clean_points.put(name, 0)
        return name in clean_points.offsets

    def repair(self, name: PartitionName) -> Log:
        """Open a refused log, cut before its first bad record. Only when another replica has
        the records that go: they are fetched again."""
        error = self.refused[name]
        done = f"cut there, records from offset {error.offset} on are fetched again from the leader"
        self.repairs.append(Repair(error, done))
        self.forget_intact()
        recovery_points = self.checkpoints.recovery_points
        recovery_points.store(name, min(recovery_points.get(name), error.offset))
        log = self._open_log(name, clean=False, repair=True)
        del self.refused[name]
        return log

    def open_again(self, name: PartitionName) -> CorruptSegment | None:
        """A refused log whose records were put back. What else is wrong, if it stays refused."""
        del self.refused[name]
        self._load(name)
        return self.refused.get(name)

    def delete_log(self, name: PartitionName) -> None:
        """The log is gone for good when this returns, whatever happens next."""
        removals = [self.take_out_of_service(name)]
        self._finish_removal(removals)
        discard_files(self._disk, removals)

    def take_out_of_service(self, name: PartitionName) -> Removal:
        """The first step of a deletion, in memory. Then, for as many as there are: `next_removals`,
        `take_names_away` on any thread, `names_taken`, and `checkpoints` and `discard_files` on
        any thread. No log of that name can be made before `names_taken`."""
        return self._take_out(name, aside(name, self.topic_ids.pop(name).hex(), DELETE_SUFFIX))

    def next_removals(self, most: int) -> list[Removal]:
        return list(islice(self.leaving.values(), most))

    def names_taken(self, removals: Sequence[Removal]) -> None:
        for removal in removals:
            del self.leaving[removal.name]
            self.checkpoints.forget(removal.name)

    def _finish_removal(self, removals: Sequence[Removal]) -> None:
        take_names_away(self._disk, removals)
        self.names_taken(removals)
        self.checkpoints.write()

    @property
    def disk(self) -> GuardedDisk:
        """For the steps that run on other threads."""
        return self._disk

    def set_aside_stray(self, name: PartitionName) -> str:
        """Metadata does not know this log, or not here: keep the records, do not serve them.
        The new name of its directory."""
        return self.set_aside_strays([name])[0]

    def set_aside_strays(self, names: Sequence[PartitionName]) -> list[str]:
        """The same for many."""
        removals = [
            self._take_out(name, self._stray_name(name, self.topic_ids.pop(name).hex()))
            for name in names
        ]
        if removals:
            self._finish_removal(removals)
        return [removal.target for removal in removals]

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
        self.checkpoints.high_watermarks.put(name, high_watermark)
        if future.may_have_gaps:
            self.checkpoints.clean_points.store(name, 0)
        if future.log_start_offset > future.segments[0].base_offset:
            self.checkpoints.log_starts.store(name, future.log_start_offset)
        self._disk.rename(future.directory, directory_of(name))
        self._disk.sync_dir("")
        self.topic_ids[name] = topic_id
        # Not before: a recovery point without a log would be taken for a log that was lost.
        with suppress(NoSpace):  # without it the next start looks at the whole log
            self.checkpoints.recovery_points.store(name, future.recovery_point)
        return self._open_log(name, clean=True, repair=False)

    def _stray_name(self, name: PartitionName, unique: str) -> str:
        """A replica that goes and comes back may be set aside again: nothing of it is replaced."""
        target, number = aside(name, unique, STRAY_SUFFIX), 1
        while self._disk.exists(target):
            number += 1
            target = aside(name, f"{unique}-{number}", STRAY_SUFFIX)
        return target

    def _take_out(self, name: PartitionName, target: str) -> Removal:
        log = self.logs.pop(name, None)
        self._compactor.forget(name)
        if log is not None:
            self.dirty.pop(log.directory, None)
            self.unstored.forget(log)
            log.release()
        self.refused.pop(name, None)
        removal = self.leaving[name] = Removal(name, target)
        return removal

    def _set_aside(self, name: PartitionName, unique: str, reason: CorruptFile) -> None:
        """A directory without a topic id: made by a process that died at once if it holds no
        records, else something we do not understand and therefore keep."""
        path = directory_of(name)
        if any(entry.endswith(LOG_SUFFIX) for entry in self._disk.list(path)):
            self.forget_intact()
            removal = self._take_out(name, self._stray_name(name, unique))
            self._finish_removal([removal])
            self.repairs.append(Repair(reason, f"kept as {removal.target}, {BEGINS_ANEW}"))
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

    def start_sync(self, *, rolled_only: bool = False) -> PendingPass | None:
        """A pass over logs that are dirty now; None if none is. `run` it on another thread, then
        `finish_sync`. One pass at a time: who is written to meanwhile stays dirty."""
        self._disk.refuse_if_offline()
        return start_pass(self.dirty, rolled_only=rolled_only)

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

    def _on_rolled(self, log: Log) -> None:
        self.dirty[log.directory] = log
        self.on_rolled()

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
        self.checkpoints.note_recovery_points(self.logs, self.refused)
        self.checkpoints.recovery_points.write()

    def checkpoint_log_starts(self) -> None:
        self.checkpoints.note_log_starts(self.logs, self.refused)
        self.checkpoints.log_starts.write()

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[PartitionName, int]) -> None:
        self.checkpoints.note_high_watermarks(high_watermarks, self.refused)
        self.checkpoints.high_watermarks.write()

    def initial_high_watermark(self, name: PartitionName) -> int:
        """What a replica begins with: as checkpointed, but inside the log. Never a reason to
        truncate: the records above may be committed without our knowing (KIP-101)."""
        log = self.logs[name]
        stored = self.checkpoints.high_watermarks.get(name)
        return max(log.log_start_offset, min(stored, log.log_end_offset))

    def raise_log_starts(self, raised: Sequence[tuple[Log, int]]) -> None:
        """Records below are no longer shown, durably: the checkpoint is written once for all."""
        rising = [(log, offset) for log, offset in raised if offset > log.log_start_offset]
        self.checkpoints.store_log_starts(rising)
        for log, offset in rising:
            log.raise_log_start(offset)

    # Retention

    def apply_retention(
        self,
        *,
        wall_ms: int,
        monotonic_ms: int,
        high_watermarks: Mapping[PartitionName, int],
        names: Iterable[PartitionName] | None = None,
        at_most: int = EVERY_FILE,
    ) -> Retained:
        """Remove what may go from these logs, or from every one: so many files at most."""
        now_ms = self._retainer.trusted_now(wall_ms=wall_ms, monotonic_ms=monotonic_ms)
        wanted = self.logs if names is None else names
        logs = {name: self.logs[name] for name in wanted if name in self.logs}
        return self._retainer.retain(logs, high_watermarks, now_ms=now_ms, at_most=at_most)

    # Compaction

    def clean_point(self, name: PartitionName) -> int:
        """Below it every key has one record in the log, at most."""
        return self.checkpoints.clean_points.get(name)

    def may_be_cleaned_to(self, name: PartitionName) -> int | None:
        """Nothing was cleaned from there on; None if that is not known any more."""
        return None if self._clean_points_are_lost else self.clean_point(name)

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
        now_ms = self._retainer.trusted_now(wall_ms=wall_ms, monotonic_ms=monotonic_ms)
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
