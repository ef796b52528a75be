"""The log of one partition: segments in a directory (replication.md §2).

What is durable when:
- An epoch is in the epoch checkpoint before the recovery point on disk passes its first record;
  until then its batches tell of it (ADR 0028).
- A segment that was rolled away is sealed by the next sync: batches, indexes, the snapshot of
  producers and names. Until then the recovery point on disk does not pass its end, and a load
  after a crash walks over it. A hole below the recovery point is always the disk's doing.
- The recovery point moves only behind a sync. `durable_offset` is the recovery point, or the
  log end when `ack.durability` is `page-cache`.
- A truncation lowers the checkpoints first, then cuts from the end towards the front, and is
  durable when it returns: cut records cannot come back and meet new ones.

A full device refuses an append and leaves the log at its last whole batch; the next append
finds it as if nothing had been asked. Any other failure takes the directory offline.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from tidelog.host.ports import Buffer, Disk, FileRange
from tidelog.storage import lookups, recovery, retention
from tidelog.storage.append_info import AppendInfo, info_of, info_of_all
from tidelog.storage.atomic_file import discard
from tidelog.storage.config import LogConfig
from tidelog.storage.deleted_files import DeletedFiles
from tidelog.storage.epoch_file import EpochFile
from tidelog.storage.errors import NoSpace, OffsetOutOfRange, StorageError, UnexpectedAppend
from tidelog.storage.guarded_disk import GuardedDisk, guard
from tidelog.storage.incoming import inspect, is_next_run, offsets_in, pieces_for, runs, stamped
from tidelog.storage.indexes import AbortedTransaction
from tidelog.storage.pending_sync import PendingSync
from tidelog.storage.producer_replay import follow_batch, rebuild, rebuild_before_cut
from tidelog.storage.repairs import PRODUCERS_REPLAYED, Repair, Repairs
from tidelog.storage.scan import follows
from tidelog.storage.segment import Segment
from tidelog.storage.segment_place import SegmentPlace
from tidelog.storage.swap import swap_in
from tidelog.wire.records import BatchHeader

Run = memoryview | FileRange


class Log:
    """One partition directory on a disk. Not safe for use by two callers at a time."""

    __slots__ = (
        "_bases",
        "_disk",
        "_gaps_are_noted",
        "_generation",
        "_name_changes",
        "_names_are_unsynced",
        "_segments",
        "_snapshots",
        "_unsealed",
        "before_truncation",
        "config",
        "deleted",
        "directory",
        "epoch_file",
        "epochs",
        "log_start_offset",
        "on_epochs_unstored",
        "on_gaps_allowed",
        "on_log_start_raised",
        "on_rolled",
        "on_unsynced",
        "place",
        "producers",
        "recovery_point",
    )

    def __init__(self, disk: GuardedDisk, place: SegmentPlace, loaded: recovery.LoadedLog) -> None:
        """Use `open`."""
        self._disk = disk
        self.place = place
        self.directory = directory = place.directory
        self.config: Final = place.config
        self.before_truncation: Callable[[Log], None] | None = None
        self.on_log_start_raised: Callable[[Log], None] | None = None
        self.on_unsynced: Callable[[Log], None] | None = None
        self.on_rolled: Callable[[Log], None] | None = None
        self.on_epochs_unstored: Callable[[Log], None] | None = None
        self.on_gaps_allowed: Callable[[Log], None] | None = None
        self.epoch_file = EpochFile(disk, directory, loaded.epochs, loaded.stored_epoch)
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.log_start_offset = loaded.log_start
        self.recovery_point = loaded.recovery_point
        self._segments = loaded.segments
        self._bases = [segment.base_offset for segment in loaded.segments]
        self._unsealed = [s for s in loaded.recovered if s in loaded.segments[:-1]]
        self._snapshots = loaded.snapshots
        self.deleted = DeletedFiles(disk, loaded.leaving)
        self._names_are_unsynced = bool(loaded.recovered)
        self._name_changes = 0
        self._generation = 0
        self._gaps_are_noted = loaded.gaps_are_noted

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        config: LogConfig,
        *,
        recovery_point: int = 0,
        log_start: int = 0,
        knows_start: bool = False,
        clean_shutdown: bool = False,
        repair: bool = False,
        gaps: bool = False,
        repairs: Repairs | None = None,
    ) -> "Log":
        """Load it, and recover it unless it was closed in order. The directory must exist.

        CorruptSegment when records below the recovery point are bad, or between the log start
        and the first segment if one `knows_start`; with `repair` the log is cut there, which is
        right if and only if another replica has them. `gaps`: it has been noted before that
        compaction may have left some. What had to be mended is in `repairs`.
        """
        guarded = guard(disk)
        noted = [] if repairs is None else repairs
        place = SegmentPlace(guarded, directory, config.copy(), noted)
        request = recovery.LoadRequest(
            place, recovery_point, log_start, knows_start, clean_shutdown, repair, gaps
        )
        return cls(guarded, place, recovery.load(request))

    def __repr__(self) -> str:
        return f"Log({self.directory}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def log_end_offset(self) -> int:
        return self._segments[-1].next_offset

    @property
    def durable_offset(self) -> int:
        """Everything below it counts as held by this replica."""
        if self.config.durability == "fsync":
            return self.recovery_point
        return self._segments[-1].next_offset

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """For tools and checks."""
        return tuple(self._segments)

    @property
    def is_synced(self) -> bool:
        return self.recovery_point == self.log_end_offset and not (
            self._names_are_unsynced or self._unsealed
        )

    @property
    def has_unsynced_files(self) -> bool:
        """New ones, or segments that were rolled away since the last sync."""
        return self._names_are_unsynced or bool(self._unsealed)

    # Appending

    def append_as_leader(self, batch: Buffer, leader_epoch: int) -> BatchHeader:
        """Stamp one batch with the log end offset and the epoch, in place if it can be."""
        return self.append_all_as_leader((batch,), leader_epoch)[0]

    def append_all_as_leader(
        self, batches: Sequence[Buffer], leader_epoch: int
    ) -> list[BatchHeader]:
        """The same for some batches in one write: all of them are in the log then, or none."""
        segment_bytes = self.config.segment_bytes
        datas, headers = stamped(batches, self.log_end_offset, leader_epoch, segment_bytes)
        self._append(datas, headers)
        return headers

    def append_as_follower(
        self, batches: Sequence[Buffer], headers: Sequence[BatchHeader] | None = None
    ) -> None:
        """Append what a leader sent, as it is. On NoSpace the batches that fit are kept. With
        `headers` each buffer is one batch, and its header was read before."""
        if headers is not None and is_next_run(headers, self._segments[-1]):
            self._append(batches, headers)
            return
        pieces = pieces_for(batches, headers, self.config.segment_bytes)
        if not pieces:
            return
        inspect(pieces, gaps=self.may_have_gaps)
        first = pieces[0][1]
        if not follows(first, self.log_end_offset, gaps=self.may_have_gaps):
            self._start_inside(first)
        if pieces[-1][1].next_offset - self.log_end_offset != offsets_in(pieces):
            self.allow_gaps()
        for datas, taken in runs(pieces, self._segments[-1].size, self.config.segment_bytes):
            self._append(datas, taken)

    def _start_inside(self, header: BatchHeader) -> None:
        """A follower that starts at the leader's log start may be sent a batch which began
        earlier: the log starts with that batch and shows its records from the log start on."""
        end = self.log_end_offset
        if not (self.size_bytes == 0 and header.base_offset <= end <= header.last_offset):
            raise UnexpectedAppend(f"{self.directory}: {header.base_offset} at log end {end}")
        log_start = self.log_start_offset
        self.truncate_fully_and_start_at(header.base_offset)
        self.log_start_offset = log_start

    def _append(self, datas: Sequence[Buffer], headers: Sequence[BatchHeader]) -> None:
        info = info_of(headers[0]) if len(headers) == 1 else info_of_all(headers)
        epochs_before = self.epoch_file.enter(headers, self.log_end_offset)
        try:
            self._append_to_segment(datas, headers, info)
        except StorageError:
            if epochs_before is not None:
                self.epoch_file.restore(epochs_before)
            raise
        if self.epoch_file.lacks_the_latest and self.on_epochs_unstored is not None:
            self.on_epochs_unstored(self)

    def _append_to_segment(
        self, datas: Sequence[Buffer], headers: Sequence[BatchHeader], info: AppendInfo
    ) -> None:
        if self._segments[-1].must_roll_before(info):
            self.roll()
        segment = self._segments[-1]
        position = segment.size
        was_synced = self.recovery_point == segment.next_offset
        segment.append(datas[0] if len(datas) == 1 else datas, info)
        try:
            for place, header in enumerate(headers):
                if header.producer_id < 0:
                    continue
                aborted = follow_batch(self.producers, header, datas[place], 0)
                if aborted is not None:
                    segment.transactions.add(aborted)
                    self._note_new_names()  # its file may be new
        except StorageError:
            segment.cut_at(position, info.first_offset)
            self._rebuild_producers(self.log_end_offset)
            raise
        if was_synced and self.on_unsynced is not None:
            self.on_unsynced(self)

    # Epochs

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """A new leader epoch begins here."""
        self.epoch_file.assign(leader_epoch, start_offset)

    @property
    def epochs_are_stored(self) -> bool:
        return self.epoch_file.is_stored(self.log_end_offset)

    def store_epochs(self) -> None:
        """Every epoch with a record is in the checkpoint when this returns."""
        if not self.epochs_are_stored:
            self.epoch_file.store(self.log_end_offset)

    @property
    def storable_recovery_point(self) -> int:
        """The recovery point that may be checkpointed: a load walks over what lies behind it,
        learns from the batches the epochs that the file lacks, and makes anew the indexes of
        segments that are not sealed yet."""
        limit = self.epoch_file.limit_of(self.recovery_point)
        return min([limit, *(segment.next_offset - 1 for segment in self._unsealed)])

    # Durability

    def sync(self) -> None:
        """Everything appended so far is on disk when this returns."""
        if self.is_synced:
            return
        end = self.log_end_offset
        self._make_durable()
        self._advance_recovery_point(end)

    def _make_durable(self) -> None:
        """Bytes first, then the names of new files (mutant M37)."""
        for segment in self._unsealed:
            segment.seal()
        self._unsealed.clear()
        self._segments[-1].sync()
        if self._names_are_unsynced:
            self._snapshots.sync()
            self._disk.sync_dir(self.directory)
            self._names_are_unsynced = False

    def start_sync(self) -> PendingSync | None:
        """The same as `sync` in three steps, of which only `run` of what this returns is slow
        and may be done on another thread. None if there is nothing to sync."""
        if self.is_synced:
            return None
        files = [file for segment in self._unsealed for file in segment.start_seal()]
        files += self._segments[-1].start_sync()
        names = None
        if self._names_are_unsynced:
            files += self._snapshots.start_sync()
            names = self._disk.start_sync_dir(self.directory)
        return PendingSync(
            files,
            names,
            self._name_changes,
            tuple(self._unsealed),
            self._generation,
            self.recovery_point,
            self.log_end_offset,
        )

    def finish_sync(self, pending: PendingSync, error: OSError | None) -> bool:
        """Did the recovery point move since `start_sync`? DirectoryOffline if the sync failed.

        It was about records that a truncation may have replaced by others; then it proves
        nothing about the log end and the segments before it, and the next sync does."""
        self._disk.sync_ended(self.directory, error)
        for file in pending.files:
            file.note_synced(file.changes)
        if pending.names is not None and pending.name_changes == self._name_changes:
            self._names_are_unsynced = False
        if pending.generation == self._generation:
            self._unsealed = [s for s in self._unsealed if s not in pending.sealed]
            self._advance_recovery_point(max(self.recovery_point, pending.end_offset))
        return self.recovery_point > pending.recovery_point

    def _note_new_names(self) -> None:
        self._names_are_unsynced = True
        self._name_changes += 1

    def _advance_recovery_point(self, synced_offset: int) -> None:
        assert self.recovery_point <= synced_offset <= self.log_end_offset, (
            f"{self}: recovery point {self.recovery_point} to {synced_offset}"
        )
        self.recovery_point = synced_offset

    def roll(self) -> None:
        """Begin a new segment at the log end. The next sync seals the old one."""
        active = self._segments[-1]
        if active.size == 0:
            return
        active.complete()
        self.take_producer_snapshot()
        self._push(self._new_segment(active.next_offset))
        self._unsealed.append(active)
        if self.on_rolled is not None:
            self.on_rolled(self)

    def take_producer_snapshot(self) -> None:
        self._snapshots.take(self.log_end_offset, self.producers)
        self._snapshots.prune([*self._bases, self.log_end_offset])
        self._note_new_names()

    def close(self) -> None:
        """An orderly stop: all is on disk, and the next load need not look at it."""
        self.sync()
        self.store_epochs()
        if self._segments[-1].size:
            self.take_producer_snapshot()
        self._segments[-1].seal()
        self._make_durable()
        self.release()

    def release(self) -> None:
        """Give the open files back without writing anything."""
        self._generation += 1
        for segment in self._segments:
            segment.close()

    # Reading

    def read(self, from_offset: int, to_offset: int, max_bytes: int) -> list[memoryview]:
        """Whole batches whose last offset is below `to_offset`, from the one that contains
        `from_offset`; at least one if there is any. They are consecutive in one segment, and
        come as one piece. CorruptSegment rather than a batch that is not what was appended."""
        if (segment := self._segment_to_read(from_offset, to_offset)) is None:
            return []
        run = segment.read(from_offset, to_offset, max_bytes=max_bytes, epochs=self.epochs)
        return [run] if len(run) else []

    def read_to_send(self, from_offset: int, to_offset: int, max_bytes: int) -> Run:
        """The same to be sent in this callback: perhaps not read at all (`FileRange`)."""
        if (segment := self._segment_to_read(from_offset, to_offset)) is None:
            return memoryview(b"")
        return segment.read_to_send(from_offset, to_offset, max_bytes=max_bytes, epochs=self.epochs)

    def _segment_to_read(self, from_offset: int, to_offset: int) -> Segment | None:
        """None if there is nothing to read."""
        end = self._segments[-1].next_offset
        if not self.log_start_offset <= from_offset <= end:
            raise OffsetOutOfRange(
                f"{self.directory}: {from_offset} is not in {self.log_start_offset}..{end}"
            )
        if from_offset >= min(to_offset, end):
            return None
        return self._segments[bisect_right(self._bases, from_offset) - 1]

    def offset_for_timestamp(self, timestamp_ms: int) -> lookups.TimestampOffset | None:
        """The first record that is not older; None if all are."""
        return lookups.find_timestamp(self._segments, timestamp_ms, self.log_start_offset)

    def aborted_transactions(self, from_offset: int, to_offset: int) -> list[AbortedTransaction]:
        """Those with a record in this range, for a `read_committed` consumer to skip."""
        first = max(bisect_right(self._bases, from_offset) - 1, 0)
        indexes = (segment.transactions for segment in self._segments[first:])
        return lookups.aborted_in(indexes, from_offset, to_offset)

    @property
    def newest_timestamp(self) -> int:
        """The largest timestamp in the log, -1 if there is none."""
        return lookups.newest_in(self._segments)

    # Truncating

    def truncate_to(self, offset: int) -> None:
        """Remove the batch that contains `offset` and everything behind it, durably. CorruptSegment
        if something in front of it is bad: nothing is removed then."""
        end = self.log_end_offset
        if offset >= end:
            self.epoch_file.truncate_from_end(end)  # KAFKA-10706
            return
        if offset < self._bases[0]:
            self.truncate_fully_and_start_at(offset)
            return
        number = max(bisect_right(self._bases, offset) - 1, 0)
        position, new_end = lookups.cut_position(self._segments[number], offset)
        bad = rebuild_before_cut(self.producers, self._snapshots, self._segments, new_end)
        self.place.repairs.extend(Repair(fault, PRODUCERS_REPLAYED) for fault in bad)
        self._lower_checkpoints(recovery_point=new_end, log_start=new_end)
        names_changed = self._snapshots.remove_after(new_end)
        self._drop_segments_after(number)
        if names_changed:
            self._disk.sync_dir(self.directory)
        self._segments[number].cut_at(position, new_end)
        self.epoch_file.truncate_from_end(new_end)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Forget everything; the next record has this offset. At every moment there is one
        segment: it empties the first one before it makes another. And one of them is not above
        the log start on disk, which moves up before the other is made and down afterwards."""
        assert offset >= 0, f"{self.directory}: start at {offset}"
        self._lower_checkpoints(recovery_point=0, log_start=self.log_start_offset)
        self._snapshots.remove_after(-1)
        self._drop_segments_after(0)
        self._disk.sync_dir(self.directory)
        first = self._segments[0]
        first.cut_at(0, first.base_offset)
        self.producers.clear()
        self.epoch_file.clear()
        self._move_log_start(offset)
        if first.base_offset != offset:
            self._push(self._new_segment(offset))
            self._disk.sync_dir(self.directory)
        self._lower_checkpoints(recovery_point=0, log_start=offset)
        if first.base_offset != offset:
            self._remove_files(first.mark_deleted())
            del self._segments[0], self._bases[0]
        self._names_are_unsynced = False
        self._name_changes += 1
        self.log_start_offset = self.recovery_point = offset

    def _lower_checkpoints(self, *, recovery_point: int, log_start: int) -> None:
        """The promises on disk about records that are about to go are taken back first:
        otherwise a crash finds them and takes other, unsynced records for synced ones."""
        self._generation += 1
        self.recovery_point = min(self.recovery_point, recovery_point)
        self.log_start_offset = min(self.log_start_offset, log_start)
        if self.before_truncation is not None:
            self.before_truncation(self)

    def _drop_segments_after(self, number: int) -> None:
        """They lie behind the recovery point on disk: a load drops what stands behind a hole."""
        gone = self._segments[number + 1 :]
        del self._segments[number + 1 :], self._bases[number + 1 :]
        if gone:
            self._remove_files([path for segment in gone for path in segment.mark_deleted()])
        kept = self._segments[:-1]
        self._unsealed = [segment for segment in self._unsealed if segment in kept]

    def _remove_files(self, paths: Sequence[str]) -> None:
        """Files whose names were taken away: nobody finds them again, then they go."""
        self._disk.sync_dir(self.directory)
        for path in paths:
            discard(self._disk, path)

    def recall_ended_transactions(self, high_watermark: int) -> None:
        """After a load: those that ended behind it hold readers back, and no snapshot tells."""
        if high_watermark < self.log_end_offset and self.producers.has_ended_transactions():
            self._rebuild_producers(high_watermark)

    def _rebuild_producers(self, replay_from: int) -> None:
        bad = rebuild(self.producers, self._snapshots, self._segments, replay_from=replay_from)
        self.place.repairs.extend(Repair(fault, PRODUCERS_REPLAYED) for fault in bad)

    def _new_segment(self, base_offset: int) -> Segment:
        return Segment.create(self.place, base_offset, gaps=self.may_have_gaps)

    def _push(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._bases.append(segment.base_offset)

    # Compaction

    @property
    def may_have_gaps(self) -> bool:
        """Compaction may have taken records here, or at the leader they came from."""
        return self._gaps_are_noted or self.config.compacts

    def allow_gaps(self) -> None:
        """From now on offsets may be missing. Noted on disk before the first one is: a topic
        may stop being compacted, and its logs must still open."""
        if not self._gaps_are_noted:
            if self.on_gaps_allowed is not None:
                self.on_gaps_allowed(self)
            self._gaps_are_noted = True
        for segment in self._segments:
            segment.gaps = True

    def replace_segments(self, old: Sequence[Segment], cleaned: Segment, *, now_ms: int) -> None:
        """Put a segment for which a swap was prepared in the place of these, which follow one
        another and do not include the last one."""
        first = self._segments.index(old[0])
        end = first + len(old)
        assert self._segments[first:end] == list(old), f"{self.directory}: not {old[0].path}"
        assert end < len(self._segments), f"{self.directory}: {old[-1].path} is the last one"
        assert self._gaps_are_noted, f"{self.directory}: compacted without a note"
        self.store_epochs()  # some may have no batch any more
        new, deleted = swap_in(self._disk, self.directory, old, cleaned)
        self._unsealed = [segment for segment in self._unsealed if segment not in old]
        self._segments[first:end] = [new]
        self._bases[first:end] = [new.base_offset]
        self.deleted.add(deleted, due_ms=now_ms + self.config.file_delete_delay_ms)

    # Retention

    def raise_log_start(self, offset: int) -> None:
        """Records below are no longer shown; their segments go with the next retention."""
        if offset <= self.log_start_offset:
            return
        if offset > self.log_end_offset:
            raise OffsetOutOfRange(f"{self}: log start {offset} behind the log end")
        # Before the epochs go: a crash must not bring records back without their epoch.
        self._move_log_start(offset)
        self.epoch_file.truncate_from_start(offset)

    def _move_log_start(self, offset: int) -> None:
        """On disk before the files below it go: else a load takes their records for lost."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            if self.on_log_start_raised is not None:
                self.on_log_start_raised(self)

    def apply_retention(self, now_ms: int, high_watermark: int, at_most: int = 1 << 62) -> int:
        """Remove the segments that may go, the oldest ones. `now_ms` is a RetentionClock's.

        The log start moves first; then one segment after the other goes, each for good before
        the next, so that a crash leaves no hole; then their epochs. None of it needs space: on
        a full device this is how to get some."""
        assert high_watermark <= self.log_end_offset, (
            f"{self.directory}: high watermark {high_watermark}, log end {self.log_end_offset}"
        )
        count = retention.expired(
            self._segments,
            self.config,
            log_start=self.log_start_offset,
            high_watermark=high_watermark,
            now_ms=now_ms,
        )
        count = min(count, at_most)
        if count == len(self._segments):
            try:
                self.roll()
            except NoSpace:
                count -= 1
        if count and self._bases[count] > self.recovery_point:
            self.sync()  # no log starts behind what is synced of it
        if count == 0:
            return 0
        with suppress(NoSpace):
            self.store_epochs()  # soon nobody can learn them from the batches
        self.log_start_offset = max(self.log_start_offset, self._bases[count])
        due_ms = now_ms + self.config.file_delete_delay_ms
        for segment in self._segments[:count]:
            self.deleted.add(segment.mark_deleted(), due_ms=due_ms)
            self._disk.sync_dir(self.directory)
            del self._segments[0], self._bases[0]
        self._unsealed = [segment for segment in self._unsealed if segment in self._segments]
        for taken in self._snapshots.offsets():
            if taken < self._bases[0]:
                self._snapshots.remove(taken)
        self.epoch_file.truncate_from_start(self.log_start_offset)
        return count

    def remove_deleted_files(self, now_ms: int) -> int:
        """Give back the space of files that went out of use `file.delete.delay.ms` ago."""
        return self.deleted.remove_due(now_ms)
