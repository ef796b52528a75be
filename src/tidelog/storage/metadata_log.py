"""The metadata log of one node on disk: a log like any other, and snapshots beside it.

What is durable when:
- A snapshot is durable before the log start is raised to it, and before older ones go.
- A received snapshot is durable before the log is emptied for it. A crash in between is finished
  at the next start (`rules.snapshot_replaces_log`).
- `durable_offset` counts synced entries only; what a snapshot covers cannot be lost either.

The newest two snapshots are kept: another node may be in the middle of fetching the older one.
The log starts where the older one ends. All entries from there on are also kept in memory.

The recovery point and the log start are checkpointed beside the log, because the directory may
be alone on its disk. An entry that was synced when the recovery point was last stored and is bad
now makes `open` refuse with CorruptSegment: a voter that forgot entries it once counted could
help to elect a leader without them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import suppress

from tidelog.core.quorum import rules
from tidelog.core.quorum.messages import SnapshotId
from tidelog.core.replication.epochs import EpochHistory
from tidelog.core.types import LogEntry
from tidelog.host.ports import Clock, Disk
from tidelog.storage import checkpoints, partition_metadata
from tidelog.storage.atomic_file import join
from tidelog.storage.config import UNLIMITED, LogConfig
from tidelog.storage.directory_names import METADATA, directory_of
from tidelog.storage.entry_codec import EntryCodec
from tidelog.storage.errors import CorruptFile, NoSpace, StorageError, UnknownContent
from tidelog.storage.guarded_disk import GuardedDisk, guard
from tidelog.storage.log import Log
from tidelog.storage.metadata_snapshots import SnapshotStore
from tidelog.storage.pending_sync import PendingSync
from tidelog.storage.repairs import Repair, Repairs
from tidelog.wire.records import InvalidBatch, UnknownRecord, iter_batches

DIRECTORY = directory_of(METADATA)
TOPIC_ID = bytes(15) + b"\x01"
"""Kafka's fixed id of the metadata topic."""

KEPT_SNAPSHOTS = 2
_SEGMENT_BYTES = 64 << 20
_READ_BYTES = 1 << 20


class MetadataLog:
    """Satisfies `core.quorum.log_view.QuorumLogView`. Owned by the shell of a quorum member."""

    __slots__ = (
        "_clock",
        "_codec",
        "_disk",
        "_entries",
        "_log",
        "_offsets",
        "_snapshots",
        "_store",
        "_stored_log_start",
        "_stored_recovery_point",
        "repairs",
    )

    def __init__(
        self, disk: GuardedDisk, codec: EntryCodec, config: LogConfig, clock: Clock | None
    ) -> None:
        """Use `open`."""
        self._disk = disk
        self._codec = codec
        self._clock = clock
        self.repairs: Repairs = []
        self._stored_recovery_point = self._stored(checkpoints.RECOVERY_POINTS)
        self._stored_log_start = self._stored(checkpoints.LOG_STARTS)
        self._log = log = Log.open(
            disk,
            DIRECTORY,
            config,
            recovery_point=self._stored_recovery_point,
            log_start=self._stored_log_start,
            repairs=self.repairs,
        )
        log.before_truncation = self._before_truncation
        log.on_log_start_raised = self._on_log_start_raised
        self._store = SnapshotStore(disk, DIRECTORY, codec)
        self._snapshots = self._store.load(self.repairs)
        self._entries: list[LogEntry] = []
        self._offsets: list[int] = []

    @classmethod
    def open(
        cls,
        disk: Disk,
        codec: EntryCodec,
        *,
        config: LogConfig | None = None,
        clock: Clock | None = None,
    ) -> "MetadataLog":
        """Load it, made empty if this disk has none, and finish what a crash interrupted.

        CorruptFile, or its kind CorruptSegment, if entries are lost. `clock` gives the batches
        their timestamps, which nothing depends on; without one they are 0.
        """
        guarded = guard(disk)
        _make_directory(guarded)
        if config is None:
            config = LogConfig(segment_bytes=_SEGMENT_BYTES)
        config.retention_ms = config.retention_bytes = UNLIMITED  # only snapshots let entries go
        config.file_delete_delay_ms = 0
        log = cls(guarded, codec, config, clock)
        log._settle_snapshots()
        log._log.sync()
        log._load_entries()
        return log

    def __repr__(self) -> str:
        return f"MetadataLog({self.log_start_offset}..{self.log_end_offset}, {self._snapshots})"

    # What the quorum sees

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def durable_offset(self) -> int:
        """Nothing below the log start can be lost: the snapshot that ends there is synced."""
        return max(self._log.recovery_point, self._log.log_start_offset)

    @property
    def epochs(self) -> EpochHistory:
        return self._log.epochs

    @property
    def last_epoch(self) -> int:
        """Epoch of the last entry, the latest snapshot's if there is none, else 0."""
        if self._entries:
            return self._entries[-1].epoch
        return self._snapshots[-1].epoch if self._snapshots else 0

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return self._snapshots[-1] if self._snapshots else None

    @property
    def oldest_snapshot(self) -> SnapshotId | None:
        return self._snapshots[0] if self._snapshots else None

    def entries_from(self, offset: int, max_entries: int) -> tuple[LogEntry, ...]:
        """Whole entries, from the one that contains `offset`."""
        if offset >= self.log_end_offset:
            return ()
        first = max(0, bisect_right(self._offsets, offset) - 1)
        return tuple(self._entries[first : first + max_entries])

    def snapshot_chunk(
        self, snapshot: SnapshotId, position: int, max_bytes: int
    ) -> tuple[int, bytes] | None:
        if snapshot not in self._snapshots:
            return None
        return self._store.chunk(snapshot, position, max_bytes)

    def read_snapshot(self, snapshot: SnapshotId) -> tuple[object, ...]:
        """Its metadata records, decoded. CorruptFile if it has gone bad since it was written."""
        assert snapshot in self._snapshots, f"{snapshot} is not one of {self._snapshots}"
        return self._store.records(snapshot)

    # Changes

    def append(self, entries: tuple[LogEntry, ...]) -> None:
        """Behind the log end. On NoSpace the entries that fit are kept."""
        timestamp_ms = self._now_ms()
        for entry in entries:
            assert entry.offset == self.log_end_offset, (
                f"entry {entry.offset} at log end {self.log_end_offset}"
            )
            self._log.append_as_follower([self._codec.encode_entry(entry, timestamp_ms)])
            assert entry.next_offset == self.log_end_offset, (
                f"entry to {entry.next_offset}, log end {self.log_end_offset}"
            )
            self._entries.append(entry)
            self._offsets.append(entry.offset)

    def truncate_to(self, offset: int) -> None:
        """Remove the entry that contains `offset` and everything behind it, durably."""
        keep = bisect_left(self._offsets, offset)
        if keep and self._entries[keep - 1].next_offset > offset:
            keep -= 1
        self._log.truncate_to(
            self._entries[keep - 1].next_offset if keep else self.log_start_offset
        )
        del self._entries[keep:], self._offsets[keep:]

    def write_snapshot(
        self, snapshot: SnapshotId, records: tuple[object, ...], control: tuple[object, ...]
    ) -> None:
        """Of the state up to its end offset, which is committed. Durable when it returns; then
        the entries go that an older snapshot covers."""
        latest = self.latest_snapshot
        assert latest is None or snapshot > latest, f"{snapshot} after {latest}"
        assert snapshot.end_offset <= self.log_end_offset, f"{snapshot}, end {self.log_end_offset}"
        content = self._codec.encode_snapshot(snapshot, records, control, self._now_ms())
        self._store.write(snapshot, content)
        self._snapshots.append(snapshot)
        self._drop_what_snapshots_cover()

    def install_snapshot(self, snapshot: SnapshotId, content: bytes) -> None:
        """Replace everything by a snapshot of the leader: the log starts again, empty, at its
        end. CorruptFile if the content is not a snapshot; then nothing has changed."""
        self._store.write(snapshot, content)
        self._start_over(snapshot)

    def _start_over(self, snapshot: SnapshotId) -> None:
        self._entries.clear()
        self._offsets.clear()
        self._log.truncate_fully_and_start_at(snapshot.end_offset)
        self._log.assign_epoch(snapshot.epoch, snapshot.end_offset)
        older = [each for each in self._snapshots if each != snapshot]
        self._snapshots = [snapshot]
        self._store.remove(older)

    def _drop_what_snapshots_cover(self) -> None:
        """The log start first: a crash leaves a snapshot too many, never one too few."""
        older, self._snapshots = (
            self._snapshots[:-KEPT_SNAPSHOTS],
            self._snapshots[-KEPT_SNAPSHOTS:],
        )
        self._log.raise_log_start(self._snapshots[0].end_offset)
        gone = bisect_left(self._offsets, self.log_start_offset)
        del self._entries[:gone], self._offsets[:gone]
        with suppress(NoSpace):
            self._log.store_epochs()
            self._checkpoint_recovery_point()
        self._log.apply_retention(0, self.log_end_offset)
        self._log.remove_deleted_files(0)
        self._store.remove(older)

    # Durability

    def start_sync(self) -> PendingSync | None:
        """None if there is nothing to sync. `run` it on another thread, then `finish_sync`."""
        return self._log.start_sync()

    def finish_sync(self, pending: PendingSync, error: OSError | None) -> bool:
        """Did the durable offset move since `start_sync`? DirectoryOffline if the sync failed."""
        return self._log.finish_sync(pending, error)

    def sync(self) -> None:
        """Everything appended so far is on disk when this returns."""
        self._log.sync()

    def close(self) -> None:
        """An orderly stop."""
        self._log.close()
        with suppress(NoSpace):
            self._checkpoint_recovery_point()

    def release(self) -> None:
        """Give the open files back without writing anything."""
        self._log.release()

    # Checkpoints

    def _stored(self, name: str) -> int:
        """One that cannot be read promises nothing."""
        try:
            stored = checkpoints.read_offsets(self._disk, join(DIRECTORY, name))
        except CorruptFile as error:
            self.repairs.append(Repair(error, "every entry is read and checked"))
            return 0
        return stored.get(METADATA, 0)

    def _checkpoint_recovery_point(self) -> None:
        point = self._log.storable_recovery_point
        self._store_offset(checkpoints.RECOVERY_POINTS, point)
        self._stored_recovery_point = point

    def _before_truncation(self, log: Log) -> None:
        """Take back promises that the truncation is about to make untrue."""
        if self._stored_recovery_point > log.recovery_point:
            self._checkpoint_recovery_point()
        if self._stored_log_start > log.log_start_offset:
            self._checkpoint_log_start()

    def _on_log_start_raised(self, log: Log) -> None:
        """On a full disk the old one stays: entries that a snapshot covers may come back."""
        with suppress(NoSpace):
            self._checkpoint_log_start()

    def _checkpoint_log_start(self) -> None:
        self._store_offset(checkpoints.LOG_STARTS, self._log.log_start_offset)
        self._stored_log_start = self._log.log_start_offset

    def _store_offset(self, name: str, offset: int) -> None:
        checkpoints.write_offsets(self._disk, join(DIRECTORY, name), {METADATA: offset})

    # Start

    def _settle_snapshots(self) -> None:
        """Finish what a crash interrupted, and be sure that nothing is missing."""
        log = self._log
        latest = self.latest_snapshot
        if rules.snapshot_replaces_log(
            latest, log.log_start_offset, log.log_end_offset, log.epochs
        ):
            assert latest is not None, f"no snapshot replaces {log}"
            self._start_over(latest)
            return
        covered = [each for each in self._snapshots if each.end_offset < log.log_start_offset]
        if covered == self._snapshots:
            if log.log_start_offset > 0:
                where = f"offset {log.log_start_offset}"
                reason = "the log starts here and no good snapshot reaches it; if other controllers"
                raise CorruptFile(DIRECTORY, where, f"{reason} have it, remove the directory")
            return
        self._store.remove(covered)
        self._snapshots = self._snapshots[len(covered) :]
        self._drop_what_snapshots_cover()
        if log.log_start_offset == log.log_end_offset:
            # Recovery forgets epochs without entries; this one the snapshot still proves.
            log.assign_epoch(self._snapshots[-1].epoch, log.log_end_offset)

    def _load_entries(self) -> None:
        for entry in self._stored_entries():
            if entry.offset >= self.log_start_offset:
                self._entries.append(entry)
                self._offsets.append(entry.offset)

    def _stored_entries(self) -> Iterator[LogEntry]:
        offset, end = self.log_start_offset, self.log_end_offset
        while offset < end:
            for run in self._log.read(offset, end, _READ_BYTES):
                for position, header in iter_batches(run):
                    yield self._decoded(run[position : position + header.size_bytes], offset)
                    offset = header.next_offset

    def _decoded(self, batch: memoryview, offset: int) -> LogEntry:
        try:
            return self._codec.decode_entry(batch)
        except InvalidBatch as error:
            fault = UnknownContent if isinstance(error, UnknownRecord) else CorruptFile
            raise fault(DIRECTORY, f"offset {offset}", str(error)) from error

    def _now_ms(self) -> int:
        return 0 if self._clock is None else self._clock.wall_ms()


def _make_directory(disk: GuardedDisk) -> None:
    """The topic id is durable before the first entry, as in every log."""
    path = join(DIRECTORY, partition_metadata.FILE_NAME)
    topic_id = partition_metadata.read_topic_id(disk, path) if disk.exists(DIRECTORY) else None
    if topic_id is None:
        disk.make_dir(DIRECTORY)
        disk.sync_dir("")
        partition_metadata.write_topic_id(disk, path, TOPIC_ID)
    elif topic_id != TOPIC_ID:
        raise StorageError(f"{path}: {topic_id.hex()} is not the id of the metadata topic")
