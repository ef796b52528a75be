"""What the quorum may see of the metadata log. The shell owns the log and performs changes."""

from typing import Protocol

from tidelog.core.quorum.messages import SnapshotId
from tidelog.core.replication.epochs import EpochHistory
from tidelog.core.types import LogEntry

SnapshotContent = tuple[object, ...] | bytes
"""Opaque to the quorum: records in the object-level simulator, bytes on a real disk."""


class QuorumLogView(Protocol):
    """Read-only face of the metadata log.

    Effects are performed before the next call into the node, so inside one call the log is
    still the one from before the call.
    """

    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def durable_offset(self) -> int:
        """Every entry below survives a crash; always the end of a whole entry."""

    @property
    def epochs(self) -> EpochHistory: ...
    @property
    def last_epoch(self) -> int:
        """Epoch of the last entry, the latest snapshot's if there is none, else -1."""

    @property
    def latest_snapshot(self) -> SnapshotId | None: ...
    @property
    def oldest_snapshot(self) -> SnapshotId | None: ...

    def entries_from(self, offset: int, max_entries: int) -> tuple[LogEntry, ...]: ...

    def snapshot_chunk(
        self, snapshot: SnapshotId, position: int, max_bytes: int
    ) -> tuple[int, SnapshotContent] | None:
        """The size of the snapshot and what follows `position`; None if it does not exist."""
