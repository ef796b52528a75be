"""What a topic may set about its logs, with Kafka's names and defaults (replication.md §10)."""

from dataclasses import dataclass
from typing import Literal

Durability = Literal["fsync", "page-cache"]
"""`ack.durability`: whether a record counts as held once it is synced, or once it is written."""

UNLIMITED = -1


@dataclass(slots=True)
class LogConfig:
    """Settings of one log. The shell may change any of them while the log is open."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3_600_000
    segment_jitter_ms: int = 0
    index_interval_bytes: int = 4096
    index_size_max_bytes: int = 10 << 20
    retention_ms: int = 7 * 24 * 3_600_000
    retention_bytes: int = UNLIMITED
    file_delete_delay_ms: int = 60_000
    durability: Durability = "fsync"
