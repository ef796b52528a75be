"""Partitions that nobody uses: what they cost, and what they cost those who use another one."""

import time
from contextlib import closing
from statistics import median

from tidelog.bench.compare.footprint import cpu_share
from tidelog.bench.compare.system import Running, System
from tidelog.bench.compare.writing import FILL, Writer, latencies_ms
from tidelog.bench.growth.curves import Measure, Point

TITLE = "idle partitions on three nodes, three replicas each"
SIZE_TITLE = "partitions"
MEASURES = (
    Measure("usable_s", "created and written to", "s", "ms each", 1000),
    Measure("usable_cpu_s", "processor of 3 nodes for it", "s", "ms each", 1000),
    Measure("idle_cpu_percent", "idle processor", "% of a core", "µs/s each", 10_000),
    Measure("rss_mb", "RSS", "MB", "kB each", 1000),
    Measure("latency_ms", "produce p50", "ms"),
)
MEGABYTE = 1_000_000
RECORD_BYTES = 100


def measure(system: System, partitions: int, *, idle_s: float, records: int) -> Point:
    """On a new cluster. A partition is there when it has taken a record; the one whose latency
    is measured was there before."""
    with closing(system.start(3)) as running:
        running.create_topic("written", 1)
        before, begin = running.cpu_seconds(), time.perf_counter()
        running.create_topic("idle", partitions)
        write_to_each(running, "idle", partitions)
        usable_s = time.perf_counter() - begin
        usable_cpu_s = running.cpu_seconds() - before
        running.wait_in_sync()
        time.sleep(idle_s / 2)  # what is left to do after that
        cpu = cpu_share(running, idle_s)
        latency_ms = median(latencies_ms(running.bootstrap_servers, "written", records))
        values = {
            "usable_s": usable_s,
            "usable_cpu_s": usable_cpu_s,
            "idle_cpu_percent": 100 * cpu,
            "rss_mb": running.rss_bytes() / MEGABYTE,
            "latency_ms": latency_ms,
        }
    return Point(partitions, values)


def write_to_each(running: Running, topic: str, partitions: int) -> None:
    """One record to every partition, all at once."""
    writer = Writer(running.bootstrap_servers, FILL)
    for partition in range(partitions):
        writer.send(topic, b"x" * RECORD_BYTES, partition)
    writer.finish()
