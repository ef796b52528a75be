"""Records of growing size with acks=all on three nodes: what a megabyte and a record cost."""

import time
from contextlib import closing

from tidelog.bench.compare.system import System
from tidelog.bench.compare.writing import write_bytes
from tidelog.bench.growth.curves import Measure, Point

TITLE = "size of a record, acks=all, three replicas"
SIZE_TITLE = "bytes"
MEASURES = (
    Measure("mb_per_s", "written", "MB/s", is_cost=False),
    Measure("cpu_ms_per_mb", "processor of 3 nodes", "ms/MB"),
    Measure("cpu_us_per_record", "processor of a record", "µs", "ns per byte", 1000),
)
MEGABYTE = 1_000_000
PARTITIONS = 6
RECORDS_MAX = 400_000
"""Of small records: more are a matter of the client alone."""
LARGEST_BATCH = 4 * 1024 * 1024


def measure(system: System, record_bytes: int, *, total_bytes: int) -> Point:
    with closing(system.start(3)) as running:
        config = {"max.message.bytes": str(LARGEST_BATCH)}
        running.create_topic("sized", PARTITIONS, config=config)
        write_bytes(
            running.bootstrap_servers,
            "sized",
            PARTITIONS,
            total_bytes=PARTITIONS * record_bytes,
            record_bytes=record_bytes,
        )
        wanted = min(total_bytes, RECORDS_MAX * record_bytes)
        before, begin = running.cpu_seconds(), time.perf_counter()
        records = write_bytes(
            running.bootstrap_servers,
            "sized",
            PARTITIONS,
            total_bytes=wanted,
            record_bytes=record_bytes,
        )
        passed_s = time.perf_counter() - begin
        used_s = running.cpu_seconds() - before
    megabytes = records * record_bytes / MEGABYTE
    values = {
        "mb_per_s": megabytes / passed_s,
        "cpu_ms_per_mb": used_s * 1000 / megabytes,
        "cpu_us_per_record": used_s * 1_000_000 / records,
    }
    return Point(record_bytes, values)
