"""A node's copy of the metadata log at object level, with its snapshots."""

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from tidelog.core.quorum.messages import SnapshotId
from tidelog.core.replication.epochs import EpochHistory
from tidelog.core.types import LogEntry


class Snapshot(NamedTuple):
    id: SnapshotId
    records: tuple[object, ...]


class RaftLog:
    """Satisfies `core.quorum.log_view.QuorumLogView`; the node performs the quorum's effects."""

    __slots__ = (
        "_offsets",
        "durable_offset",
        "entries",
        "epochs",
        "generation",
        "log_end_offset",
        "log_start_offset",
        "snapshots",
    )

    def __init__(self) -> None:
        self.entries: list[LogEntry] = []
        self._offsets: list[int] = []
        self.epochs = EpochHistory()
        self.snapshots: list[Snapshot] = []
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.durable_offset = 0
        self.generation = 0

    @property
    def last_epoch(self) -> int:
        if self.entries:
            return self.entries[-1].epoch
        return self.snapshots[-1].id.epoch if self.snapshots else 0

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return self.snapshots[-1].id if self.snapshots else None

    @property
    def oldest_snapshot(self) -> SnapshotId | None:
        return self.snapshots[0].id if self.snapshots else None

    def entries_from(self, offset: int, max_entries: int) -> tuple[LogEntry, ...]:
        if offset >= self.log_end_offset:
            return ()
        first = max(0, bisect_right(self._offsets, offset) - 1)
        return tuple(self.entries[first : first + max_entries])

    def snapshot_chunk(
        self, snapshot: SnapshotId, position: int, max_bytes: int
    ) -> tuple[int, tuple[object, ...]] | None:
        """Size in records and the records from `position`; a record counts as one byte here."""
        for kept in self.snapshots:
            if kept.id == snapshot:
                return len(kept.records), kept.records[position : position + max_bytes]
        return None

    def append(self, entries: tuple[LogEntry, ...]) -> None:
        for entry in entries:
            assert entry.offset == self.log_end_offset, (entry.offset, self.log_end_offset)
            self.epochs.assign(entry.epoch, entry.offset)
            self.entries.append(entry)
            self._offsets.append(entry.offset)
            self.log_end_offset = entry.next_offset

    def truncate_to(self, offset: int) -> None:
        keep = bisect_left(self._offsets, offset)
        if keep and self.entries[keep - 1].next_offset > offset:
            keep -= 1
        del self.entries[keep:], self._offsets[keep:]
        self.log_end_offset = self.entries[-1].next_offset if keep else self.log_start_offset
        self.durable_offset = min(self.durable_offset, self.log_end_offset)
        self.epochs.truncate_from_end(self.log_end_offset)
        self.generation += 1

    def take_snapshot(self, snapshot: Snapshot) -> None:
        """Keep it and drop the entries that an older snapshot already covers."""
        assert snapshot.id.end_offset <= self.log_end_offset
        self.snapshots.append(snapshot)
        while len(self.snapshots) > 2:
            self.snapshots.pop(0)
        self._raise_log_start(self.snapshots[0].id.end_offset)

    def install_snapshot(self, snapshot: Snapshot) -> None:
        """Replace everything: the log starts again, empty, at the snapshot's end."""
        self.entries.clear()
        self._offsets.clear()
        self.epochs.clear()
        self.epochs.assign(snapshot.id.epoch, snapshot.id.end_offset)
        self.snapshots = [snapshot]
        self.log_start_offset = self.log_end_offset = self.durable_offset = snapshot.id.end_offset
        self.generation += 1

    def _raise_log_start(self, offset: int) -> None:
        if offset <= self.log_start_offset:
            return
        gone = bisect_left(self._offsets, offset)
        del self.entries[:gone], self._offsets[:gone]
        self.log_start_offset = offset
        # The snapshot that allows this is synced, so nothing below it can be lost any more.
        self.durable_offset = max(self.durable_offset, offset)
        self.epochs.truncate_from_start(offset)

    def sync(self) -> None:
        self.durable_offset = self.log_end_offset

    def lose_tail(self, keep_offset: int) -> None:
        """Power is gone: the unsynced entries from `keep_offset` on are lost."""
        self.truncate_to(max(keep_offset, self.durable_offset))
        self.sync()
