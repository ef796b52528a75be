"""Producer state follows the log: from a snapshot, then batch by batch."""

from collections.abc import Callable, Sequence
from functools import partial

from tidelog.core.replication.producers import ProducerEntry, ProducerStates
from tidelog.host.ports import Buffer, Disk
from tidelog.storage.atomic_file import discard, join
from tidelog.storage.errors import CorruptFile, CorruptSegment
from tidelog.storage.indexes import AbortedTransaction
from tidelog.storage.pending_sync import FileSync
from tidelog.storage.producer_snapshots import SUFFIX, read_snapshot, write_snapshot
from tidelog.storage.segment import Segment, file_name
from tidelog.wire.records import BatchHeader, EndTxnMarker, InvalidBatch, end_txn_marker

_NO_LIMIT = (1 << 63) - 1


def follow_batch(
    producers: ProducerStates, header: BatchHeader, data: Buffer, position: int
) -> AbortedTransaction | None:
    """Update the state by one batch of the log. The transaction it aborted, if it did."""
    if header.producer_id < 0:
        return None
    if not header.is_control:
        producers.update(header)
        return None
    marker = _marker(data, position)
    if marker is None:
        if header.record_count == 0:
            # Compaction took a marker that ended nothing any more; its epoch still counts.
            producers.update(header)
        return None
    completed = producers.update(header, marker.coordinator_epoch)
    if completed is None or marker.commit:
        return None
    oldest_open = producers.first_unstable_offset(_NO_LIMIT)
    return AbortedTransaction(
        completed.producer_id,
        completed.first_offset,
        completed.last_offset,
        header.next_offset if oldest_open is None else oldest_open,
    )


def _marker(data: Buffer, position: int) -> EndTxnMarker | None:
    try:
        return end_txn_marker(data, position)
    except InvalidBatch:
        return None  # a control batch of a kind we do not know ends nothing


def rebuild(
    producers: ProducerStates,
    snapshots: "SnapshotFiles",
    segments: Sequence[Segment],
    *,
    replay_from: int,
    end: int = _NO_LIMIT,
    aborted: Callable[[Segment, AbortedTransaction], None] | None = None,
) -> list[CorruptFile]:
    """The state at the end of the log, or at the border of two batches that is `end`: newest
    snapshot not after `replay_from`, then replay.

    Records below the log start are replayed while they are there: a retry of one is still a
    retry. `aborted` hears of every aborted transaction replayed, for the index of its segment.

    Transactions that have ended hold readers back until their marker is committed. Those that
    end after the snapshot are replayed; those before it are in the log as they were.

    Bad snapshots are removed on the way; they are returned.
    """
    bad: list[CorruptFile] = []
    ended_before = producers.ended_transactions()
    producers.clear()
    oldest = start = segments[0].base_offset
    for offset in snapshots.offsets(newest_first=True):
        if oldest <= offset <= replay_from:
            entries = snapshots.load(offset, bad)
            if entries is not None:
                producers.load(entries)
                start = offset
                break
    producers.remember_ended(each for each in ended_before if each.last_offset < start)
    for segment in segments:
        first = max(start, segment.base_offset)
        if segment.next_offset <= start or segment.size == 0 or first >= end:
            continue
        for batch in segment.batches_from(first):
            ended = follow_batch(producers, batch.header, batch.buffer, batch.start)
            if ended is not None and aborted is not None:
                aborted(segment, ended)
            if batch.header.next_offset >= end:
                break  # nobody may look behind it
    return bad


def rebuild_before_cut(
    producers: ProducerStates,
    snapshots: "SnapshotFiles",
    segments: Sequence[Segment],
    new_end: int,
) -> list[CorruptFile]:
    """The state of a log that is about to be cut. CorruptSegment if not all of what stays can be
    read; then the state is as it was, and nothing should be cut."""
    entries, ended = producers.entries(), producers.ended_transactions()
    try:
        return rebuild(producers, snapshots, segments, replay_from=new_end, end=new_end)
    except CorruptSegment:
        producers.load(entries)
        producers.remember_ended(ended)
        raise


class SnapshotFiles:
    """The producer snapshots in a partition directory."""

    __slots__ = ("_directory", "_disk", "_offsets", "_taken", "_unsynced")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        names = disk.list(directory)
        self._offsets = [int(name[: -len(SUFFIX)]) for name in names if is_snapshot(name)]
        self._offsets.sort()
        self._taken = 0
        self._unsynced: dict[int, int] = {}
        """The offsets of those that are not on disk yet, with their numbers in the order taken."""

    def offsets(self, *, newest_first: bool = False) -> list[int]:
        return self._offsets[::-1] if newest_first else self._offsets[:]

    def load(self, offset: int, bad: list[CorruptFile]) -> list[ProducerEntry] | None:
        """None if it was bad; then it is gone."""
        try:
            return read_snapshot(self._disk, self._path(offset))
        except CorruptFile as error:
            bad.append(error)
            self.remove(offset)
            return None

    def take(self, offset: int, producers: ProducerStates) -> None:
        """The state up to `offset`, exclusive. On disk after the next sync: it lies behind the
        recovery point until then, and a load after a crash uses none of those."""
        path = self._path(offset)
        try:
            write_snapshot(self._disk, path, producers.entries())
        except BaseException:
            discard(self._disk, path)
            raise
        self._taken += 1
        self._unsynced[offset] = self._taken
        if offset not in self._offsets:
            self._offsets.append(offset)
            self._offsets.sort()

    def sync(self) -> None:
        for offset in self._unsynced:
            file = self._disk.open(self._path(offset))
            try:
                file.sync()
            finally:
                file.close()
        self._unsynced.clear()

    def start_sync(self) -> list[FileSync]:
        """The same in two steps."""
        return [self._start_sync(offset, taken) for offset, taken in self._unsynced.items()]

    def _start_sync(self, offset: int, taken: int) -> FileSync:
        file = self._disk.open(self._path(offset))
        try:
            return FileSync(file.start_sync(), partial(self._note_synced, offset), taken)
        finally:
            file.close()

    def _note_synced(self, offset: int, taken: int) -> None:
        if self._unsynced.get(offset) == taken:  # else it was removed, or taken anew
            del self._unsynced[offset]

    def remove(self, offset: int) -> None:
        discard(self._disk, self._path(offset))
        self._offsets.remove(offset)
        self._unsynced.pop(offset, None)

    def remove_after(self, offset: int) -> bool:
        """Those of records that are gone; they must not meet other records at their offsets.
        True if there were any: then their names have to be made to vanish for good."""
        gone = [taken for taken in self._offsets if taken > offset]
        for taken in gone:
            self.remove(taken)
        return bool(gone)

    def prune(self, segment_bases: Sequence[int]) -> None:
        """One per segment and the newest one are worth their place."""
        kept = frozenset(segment_bases)  # a log may have thousands
        for taken in self._offsets[:-1]:
            if taken not in kept:
                self.remove(taken)

    def _path(self, offset: int) -> str:
        return join(self._directory, file_name(offset, SUFFIX))


def is_snapshot(name: str) -> bool:
    return name.endswith(SUFFIX) and len(name) == 20 + len(SUFFIX) and name[:20].isdigit()
