"""What a cluster costs while nobody uses it, and what 1,000 idle partitions add for those who do.

Memory and processor are those of a new cluster. The added latency is the difference of two medians
on a warm one, before and after the partitions are made. It may be smaller than the noise; less than
the clock can tell is not reported.
"""

import threading
import time
from collections.abc import Mapping
from contextlib import closing
from statistics import median
from typing import NamedTuple

from tidelog.bench.compare.footprint import rss_during, settled_cpu_share
from tidelog.bench.compare.system import Row, Running, Scale, System
from tidelog.bench.compare.warm_clusters import WarmClusters
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
    __slots__ = ("_size", "_warm", "rows")

    name = SECTION
    rounds_max: int | None = 2

    def __init__(self, scale: Scale, warm: WarmClusters) -> None:
        self._warm = warm
        self._size = SIZES[scale]
        self.rows = rows_of(self._size.partitions)

    def measure(self, system: System, round_number: int) -> Mapping[str, float]:
        return {
            **self._partitions(system, round_number),
            **self._latency(system, round_number),
            **self._load(system, round_number),
        }

    def _partitions(self, system: System, round_number: int) -> Mapping[str, float]:
        size = self._size
        with closing(system.start(3)) as running:
            running.create_topic(f"first-{round_number}", 1)
            time.sleep(size.settle_s)
            idle_bytes = running.rss_bytes()
            running.create_topic(f"idle-{round_number}", size.partitions)
            time.sleep(size.settle_s)
            share = settled_cpu_share(running, size.idle_s)
            return {
                "idle.rss_mb": idle_bytes / MEGABYTE,
                "idle.cpu_percent": 100 * share,
                "idle.partitions_rss_mb": running.rss_bytes() / MEGABYTE,
            }

    def _latency(self, system: System, round_number: int) -> Mapping[str, float]:
        size = self._size
        topic, idle_topic = f"latency-{round_number}", f"idle-{round_number}"
        with self._warm.running(system) as running:
            running.create_topic(topic, 1)
            before = median(latencies_ms(running.bootstrap_servers, topic, size.records))
            running.create_topic(idle_topic, size.partitions)
            time.sleep(size.settle_s)
            after = median(latencies_ms(running.bootstrap_servers, topic, size.records))
            running.delete_topic(idle_topic)
            running.delete_topic(topic)
        return {
            "idle.latency_ms": after,
            "idle.added_latency_ms": max(LEAST_ADDED_MS, after - before),
        }

    def _load(self, system: System, round_number: int) -> Mapping[str, float]:
        topic = f"load-{round_number}"
        with closing(system.start(3)) as running:
            running.create_topic(topic, LOAD_PARTITIONS)
            most = rss_under_load(running, topic, self._size.load_bytes)
            return {"idle.load_rss_mb": most / MEGABYTE}


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
