"""What a cluster costs while nobody uses it, and what 1,000 idle partitions add for those who do.

The added latency is the difference of two medians on one cluster, before and after the partitions
are made. It may be smaller than the noise; less than the clock can tell is not reported.
"""

import threading
import time
from collections.abc import Mapping
from contextlib import closing
from statistics import median
from typing import NamedTuple

from tidelog.bench.compare.footprint import rss_during, settled_cpu_share
from tidelog.bench.compare.system import Row, Running, Scale, System
from tidelog.bench.compare.warming import warm_up
from tidelog.bench.compare.writing import latencies_ms, write_bytes

SECTION = "idle"
MEGABYTE = 1_000_000
LEAST_ADDED_MS = 0.01
LOAD_PARTITIONS = 6
RECORD_BYTES = 1024


class IdleSize(NamedTuple):
    partitions: int
    settle_s: float
    """After the partitions were made: both systems still have work from that."""
    idle_s: float
    records: int
    """For one latency, one after the other."""
    load_bytes: int


SIZES: Mapping[Scale, IdleSize] = {
    Scale.TINY: IdleSize(20, settle_s=0.1, idle_s=0.5, records=20, load_bytes=MEGABYTE),
    Scale.QUICK: IdleSize(1_000, settle_s=3.0, idle_s=5.0, records=200, load_bytes=100 * MEGABYTE),
    Scale.FULL: IdleSize(1_000, settle_s=5.0, idle_s=10.0, records=500, load_bytes=300 * MEGABYTE),
}


class IdleSection:
    __slots__ = ("_scale", "_size", "rows")

    name = SECTION
    rounds_max: int | None = 3

    def __init__(self, scale: Scale) -> None:
        self._scale = scale
        self._size = SIZES[scale]
        self.rows = rows_of(self._size.partitions)

    def measure(self, system: System, round_number: int) -> Mapping[str, float]:
        size = self._size
        found: dict[str, float] = {}
        with closing(system.start(3)) as running:
            latency_topic = f"latency-{round_number}"
            running.create_topic(latency_topic, 1)
            time.sleep(size.settle_s)
            found["idle.rss_mb"] = running.rss_bytes() / MEGABYTE
            warm_up(running, self._scale)
            before = median(latencies_ms(running.bootstrap_servers, latency_topic, size.records))
            running.create_topic(f"idle-{round_number}", size.partitions)
            time.sleep(size.settle_s)
            found["idle.cpu_percent"] = 100 * settled_cpu_share(running, size.idle_s)
            found["idle.partitions_rss_mb"] = running.rss_bytes() / MEGABYTE
            after = median(latencies_ms(running.bootstrap_servers, latency_topic, size.records))
            found["idle.latency_ms"] = after
            found["idle.added_latency_ms"] = max(LEAST_ADDED_MS, after - before)
        with closing(system.start(3)) as running:
            topic = f"load-{round_number}"
            running.create_topic(topic, LOAD_PARTITIONS)
            found["idle.load_rss_mb"] = rss_under_load(running, topic, size.load_bytes) / MEGABYTE
        return found


def rows_of(partitions: int) -> tuple[Row, ...]:
    idle = f"{partitions:,} idle partitions"
    titles = (
        ("idle.cpu_percent", f"processor, {idle}", "% of a core"),
        ("idle.latency_ms", f"produce p50 beside {idle}", "ms"),
        ("idle.added_latency_ms", f"latency added by {idle}", "ms"),
        ("idle.rss_mb", "RSS idle, 3 nodes", "MB"),
        ("idle.partitions_rss_mb", f"RSS, {idle}", "MB"),
        ("idle.load_rss_mb", "RSS under load, 3 nodes", "MB"),
    )
    return tuple(
        Row(key, title, unit, more_is_better=False, section=SECTION) for key, title, unit in titles
    )


def rss_under_load(running: Running, topic: str, total_bytes: int) -> int:
    """While records of 1 KiB are written as fast as they are taken."""
    failures: list[Exception] = []

    def write() -> None:
        try:
            write_bytes(
                running.bootstrap_servers,
                topic,
                LOAD_PARTITIONS,
                total_bytes=total_bytes,
                record_bytes=RECORD_BYTES,
            )
        except Exception as failure:  # a thread's border: raised again below
            failures.append(failure)

    load = threading.Thread(target=write, name="load", daemon=True)
    load.start()
    most = rss_during(running, lambda: not load.is_alive())
    load.join()
    if failures:
        raise failures[0]
    return most
