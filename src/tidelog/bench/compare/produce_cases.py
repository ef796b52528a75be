"""Which writing is measured: one thing at a time is changed of a base case."""

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.bench.compare.system import KAFKA, TIDELOG, Row, Scale

SECTION = "throughput"
KIB, SMALL_BYTES = 1024, 100
MEGABYTE = 1_000_000
JAVA, LIBRDKAFKA = "java", "librdkafka"
STOCK, FSYNC = "page-cache", "fsync"

SYNCED: Mapping[str, Mapping[str, str]] = {
    TIDELOG: {"ack.durability": "fsync"},
    KAFKA: {"log.flush.interval.messages": "1"},
}
"""How each system is told to answer only what every replica in sync has on its disk."""

SIZES_MB: Mapping[Scale, Mapping[str, int]] = {
    Scale.TINY: {"large": 1, "small": 1, "synced": 1, "read": 1},
    Scale.QUICK: {"large": 60, "small": 20, "synced": 10, "read": 100},
    Scale.FULL: {"large": 100, "small": 30, "synced": 20, "read": 300},
}
"""Values only. 100 B records and synced ones go slower: a measurement shall take a few seconds."""


class Case(NamedTuple):
    """One way of writing to a fresh topic."""

    client: str
    acks: str = "all"
    record_bytes: int = KIB
    partitions: int = 6
    codec: str = "none"
    durability: str = STOCK
    batching: str = ""
    """Empty: as the client comes."""

    @property
    def key(self) -> str:
        size = "1KiB" if self.record_bytes == KIB else f"{self.record_bytes}B"
        acks = f"acks-{self.acks}"
        parts = ["produce", self.client, acks, size, f"{self.partitions}p", self.codec]
        parts += [self.batching] if self.batching else []
        return ".".join([*parts, *([FSYNC] if self.durability == FSYNC else [])])

    @property
    def title(self) -> str:
        size = "1 KiB" if self.record_bytes == KIB else f"{self.record_bytes} B"
        noun = "partition" if self.partitions == 1 else "partitions"
        parts = [f"produce acks={self.acks}", size, f"{self.partitions} {noun}"]
        parts += [self.codec] if self.codec != "none" else []
        parts += [f"{self.batching} batches"] if self.batching else []
        return ", ".join([*parts, *(["fsync"] if self.durability == FSYNC else []), self.client])

    @property
    def limit_key(self) -> str | None:
        """None where the limit's bytes would be others: the values are compressed."""
        if self.codec != "none":
            return None
        size = "1k" if self.record_bytes == KIB else str(self.record_bytes)
        synced = "-fsync" if self.durability == FSYNC else ""
        return f"limit-produce-{size}{'-acks-1' if self.acks == '1' else synced}"

    @property
    def row(self) -> Row:
        return Row(self.key, self.title, "MB/s", True, SECTION, self.limit_key)

    @property
    def settings(self) -> dict[str, str]:
        """Of the client, and the same for both systems."""
        settings = {"acks": self.acks, "compression.type": self.codec}
        return {**settings, **BATCHING[self.batching]}

    def records(self, scale: Scale) -> int:
        sizes = SIZES_MB[scale]
        kind = "large" if self.record_bytes == KIB else "small"
        if self.durability == FSYNC:
            kind = "synced"
        return sizes[kind] * MEGABYTE // self.record_bytes


BATCHING: Mapping[str, Mapping[str, str]] = {
    "": {},
    "128KiB": {"batch.size": str(128 * KIB), "linger.ms": "10"},
}

BASE = Case(LIBRDKAFKA)
CASES = (
    Case(JAVA),
    BASE,
    Case(JAVA, acks="1"),
    BASE._replace(acks="1"),
    Case(JAVA, record_bytes=SMALL_BYTES),
    BASE._replace(record_bytes=SMALL_BYTES),
    Case(JAVA, partitions=1),
    Case(JAVA, partitions=100),
    Case(JAVA, codec="lz4"),
    Case(JAVA, batching="128KiB"),
    Case(JAVA, durability=FSYNC),
    BASE._replace(durability=FSYNC),
)
