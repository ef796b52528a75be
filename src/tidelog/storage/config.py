"""What a topic may set about its logs, with Kafka's names and defaults (replication.md §10)."""

from dataclasses import dataclass, fields
from typing import Literal
from zlib import crc32

CleanupPolicy = Literal["delete", "compact"]
Durability = Literal["fsync", "page-cache"]
"""`ack.durability`: whether a record counts as held once it is synced, or once it is written."""

UNLIMITED = -1
NEVER_MS = (1 << 63) - 1


@dataclass(slots=True)
class LogConfig:
    """Settings of one log. A log has an object of its own, which its segments read too: what the
    shell alters counts at the next append."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3_600_000
    segment_jitter_ms: int = 0
    index_interval_bytes: int = 4096
    index_size_max_bytes: int = 10 << 20
    index_write_bytes: int = 512
    """Entries of an index are written so many bytes together. Ours, and no setting of a topic:
    proofs make it small, to see what a crash leaves between two writes."""
    retention_ms: int = 7 * 24 * 3_600_000
    retention_bytes: int = UNLIMITED
    file_delete_delay_ms: int = 60_000
    durability: Durability = "fsync"
    cleanup_policy: tuple[CleanupPolicy, ...] = ("delete",)
    delete_retention_ms: int = 24 * 3_600_000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER_MS

    def become(self, other: "LogConfig") -> None:
        """Take over every setting of another one."""
        for field in fields(other):
            setattr(self, field.name, getattr(other, field.name))

    def copy(self) -> "LogConfig":
        copied = LogConfig()
        copied.become(self)
        return copied

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """Whether age and size are reasons to delete."""
        return "delete" in self.cleanup_policy

    @property
    def longest_segment_ms(self) -> int:
        """The last segment is never compacted, so it must end in time for the promise that
        records are compacted after `max.compaction.lag.ms` (KIP-354)."""
        if self.compacts:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms

    def roll_after_ms(self, path: str) -> int:
        """How long this segment is written to, in record time. The jitter is drawn from its name:
        it differs from log to log, and a segment that is opened again has the same."""
        longest_ms = self.longest_segment_ms
        most_ms = min(self.segment_jitter_ms, longest_ms)
        return longest_ms - crc32(path.encode()) % (most_ms + 1) if most_ms else longest_ms
