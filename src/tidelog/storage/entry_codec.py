"""How entries of the metadata log and snapshots become bytes: known to the quorum's shell."""

from typing import Protocol

from tidelog.core.quorum.messages import SnapshotId
from tidelog.core.types import LogEntry


class EntryCodec(Protocol):
    """Whatever is wrong with bytes is an `InvalidBatch`."""

    def encode_entry(self, entry: LogEntry, timestamp_ms: int) -> bytes:
        """One batch of version 2, with base offset and leader epoch stamped."""
        ...

    def decode_entry(self, batch: memoryview) -> LogEntry: ...

    def encode_snapshot(
        self,
        snapshot: SnapshotId,
        records: tuple[object, ...],
        control: tuple[object, ...],
        timestamp_ms: int,
    ) -> bytes: ...

    def decode_snapshot(self, content: bytes) -> tuple[tuple[object, ...], tuple[object, ...]]:
        """Metadata records and control records. A part of a snapshot is not one."""
        ...
