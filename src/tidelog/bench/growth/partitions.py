"""Partitions that nobody uses: what they cost, and what they cost those who use another one."""

import time
from contextlib import closing
from statistics import median

from tidelog.bench.compare.footprint import cpu_share
from tidelog.bench.compare.system import System
from tidelog.bench.compare.writing import latencies_ms
from tidelog.bench.growth.curves import Measure, Point

TITLE = "idle partitions on three nodes, three replicas each"
SIZE_TITLE = "partitions"
MEASURES = (
    Measure("create_s", "created in", "s", "ms each", 1000),
    Measure("idle_cpu_percent", "idle processor", "% of a core", "µs/s each", 10_000),
    Measure("rss_mb", "RSS", "MB", "kB each", 1000),
    Measure("latency_ms", "produce p50", "ms"),
)
MEGABYTE = 1_000_000


def measure(system: System, partitions: int, *, idle_s: float, records: int) -> Point:
    """On a new cluster. The partition that is written to was there before."""
    with closing(system.start(3)) as running:
        running.create_topic("written", 1)
        begin = time.perf_counter()
        running.create_topic("idle", partitions)
        create_s = time.perf_counter() - begin
        time.sleep(idle_s / 2)  # what is left to do after creating them
        cpu = cpu_share(running, idle_s)
        latency_ms = median(latencies_ms(running.bootstrap_servers, "written", records))
        values = {
            "create_s": create_s,
            "idle_cpu_percent": 100 * cpu,
            "rss_mb": running.rss_bytes() / MEGABYTE,
            "latency_ms": latency_ms,
        }
    return Point(partitions, values)
