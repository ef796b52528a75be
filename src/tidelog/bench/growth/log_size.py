"""A log that grows on one node: does it take longer to start on it, or to write to it?"""

from contextlib import closing
from statistics import median

from tidelog.bench.compare.footprint import age_of
from tidelog.bench.compare.system import Running, System
from tidelog.bench.compare.writing import latencies_ms, write_bytes, write_one
from tidelog.bench.growth.curves import Measure, Point

TITLE = "size of a log on one node"
SIZE_TITLE = "MB"
MEASURES = (
    Measure("clean_start_s", "start after a clean stop", "s", "ms per MB", 1000),
    Measure("killed_start_s", "start after SIGKILL", "s", "ms per MB", 1000),
    Measure("latency_ms", "produce p50", "ms"),
)
MEGABYTE = 1_000_000
RECORD_BYTES = 10_000
TOPIC = "long"
NODE = 1


def measure(system: System, megabytes: int, *, records: int) -> Point:
    """A start ends with the first record that is acknowledged."""
    with closing(system.start(1)) as running:
        running.create_topic(TOPIC, 1, replication_factor=1)
        write_bytes(
            running.bootstrap_servers,
            TOPIC,
            1,
            total_bytes=megabytes * MEGABYTE,
            record_bytes=RECORD_BYTES,
        )
        values = {"latency_ms": median(latencies_ms(running.bootstrap_servers, TOPIC, records))}
        running.kill(NODE)
        values["killed_start_s"] = start_s(running)
        running.stop(NODE)
        values["clean_start_s"] = start_s(running)
    return Point(megabytes, values)


def start_s(running: Running) -> float:
    running.restart(NODE)
    write_one(running.bootstrap_servers, TOPIC)
    return age_of(running.pid(NODE))
