"""The rows of the quick benchmark, and how much is done for each of them."""

from typing import NamedTuple

from tidelog.bench.compare.system import Row

SECTION = "quick"
MB, KIB = 1_000_000, 1024

THROUGHPUT = (
    Row("produce-1k", "produce, acks=all, 1 KiB", "MB/s", True, SECTION, "limit-produce-1k"),
    Row("produce-1k-fsync", "the same, synced", "MB/s", True, SECTION, "limit-produce-1k-fsync"),
    Row("produce-100", "produce, acks=all, 100 B", "MB/s", True, SECTION, "limit-produce-100"),
    Row("consume", "consume, 1 KiB", "MB/s", True, SECTION, "limit-consume"),
    Row("small-1", "one record per request, 1 connection", "req/s", True, SECTION, "limit-small-1"),
    Row("small-32", "the same, 32 connections", "req/s", True, SECTION, "limit-small-32"),
)
LATENCY = (
    Row("e2e-p50", "end to end at 1,000/s, p50", "ms", False, SECTION, "limit-e2e-p50"),
    Row("e2e-p99", "end to end at 1,000/s, p99", "ms", False, SECTION, "limit-e2e-p99"),
)
PROCESSOR = (
    Row("cpu-produce-1k", "processor, produce 1 KiB", "ms/MB", False, SECTION, "limit-produce-1k"),
    Row(
        "cpu-produce-1k-fsync",
        "processor, the same, synced",
        "ms/MB",
        False,
        SECTION,
        "limit-produce-1k-fsync",
    ),
    Row(
        "cpu-produce-100", "processor, produce 100 B", "ms/MB", False, SECTION, "limit-produce-100"
    ),
    Row("cpu-consume", "processor, consume", "ms/MB", False, SECTION, "limit-consume"),
    Row("cpu-small-1", "processor, 1 connection", "µs/req", False, SECTION, "limit-small-1"),
    Row("cpu-small-32", "processor, 32 connections", "µs/req", False, SECTION, "limit-small-32"),
)
"""Of the three brokers together, beyond what they use when idle: it hardly changes when the machine
has other work too."""
LIFE = (
    Row("start", "start of three nodes until all are ready", "s", False, SECTION),
    Row("cpu-idle", "processor of three nodes, idle", "ms/s", False, SECTION),
    Row("rss-idle", "memory of three nodes, idle", "MB", False, SECTION),
    Row("rss-load", "memory of three nodes, after the load", "MB", False, SECTION),
)
ROWS = (*THROUGHPUT, *LATENCY, *PROCESSOR, *LIFE)


class Amount(NamedTuple):
    """How much is done in one round."""

    large_records: int = 130_000
    """Of 1 KiB."""
    synced_records: int = 60_000
    """Of 1 KiB, each acknowledged when it is synced."""
    short_records: int = 400_000
    """Of 100 bytes."""
    small_seconds: float = 2.0
    timed_seconds: float = 3.0
    idle_seconds: float = 2.0
    limit_share: float = 0.25
    """Of what a case of the limit does in the whole benchmark."""


QUICK = Amount()
TINY = Amount(200, 200, 200, 0.2, 0.2, 0.1, 0.002)
"""Figures mean nothing: it shows that all works."""
