"""What a cluster costs before anybody uses it: time to start and stop, memory, idle processor.

Three nodes are started and stopped by `tidelog up` and `tidelog down`; a last cluster gets a
topic and is then left alone while /proc is read. Figures are medians; a node's processor time is
the worst of the three.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidelog.testing import Cluster

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
SETTLE_SECONDS = 3.0
BARS = {"up_seconds": 2.0, "down_seconds": 2.0, "rss_megabytes": 70.0, "idle_cpu_percent": 1.0}


def command(directory: Path, *words: str) -> None:
    subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "tidelog", *words],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=True,
        capture_output=True,
        timeout=60,
    )


def seconds_of(work: Callable[[], None]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def start_and_stop() -> tuple[float, float]:
    with tempfile.TemporaryDirectory(prefix="tidelog-idle-") as name:
        directory = Path(name)
        up = ("up", "--brokers", "3", "--detach", "--ready-file", "ready.json")
        try:
            started = seconds_of(lambda: command(directory, *up))
        finally:
            stopped = seconds_of(lambda: command(directory, "down"))
        return started, stopped


def rss_megabytes(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {pid} has no VmRSS")


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    return (user + system) / TICKS_PER_SECOND


def idle(partitions: int, seconds: float) -> tuple[list[float], list[float]]:
    """Per node: resident megabytes, and percent of a core."""
    with Cluster(brokers=3) as cluster:
        cluster.topic("idle", partitions=partitions, replication_factor=3)
        pids = [pid for pid in map(cluster.pid, cluster.brokers) if pid is not None]
        time.sleep(SETTLE_SECONDS)
        before = [cpu_seconds(pid) for pid in pids]
        begin = time.perf_counter()
        time.sleep(seconds)
        passed = time.perf_counter() - begin
        used = [cpu_seconds(pid) - start for pid, start in zip(pids, before, strict=True)]
        return [rss_megabytes(pid) for pid in pids], [100 * each / passed for each in used]


def measure(runs: int, partitions: int, seconds: float) -> dict[str, Any]:
    times = [start_and_stop() for _ in range(runs)]
    megabytes, percents = idle(partitions, seconds)
    return {
        "up_seconds": statistics.median(up for up, _ in times),
        "up_seconds_worst": max(up for up, _ in times),
        "down_seconds": statistics.median(down for _, down in times),
        "down_seconds_worst": max(down for _, down in times),
        "rss_megabytes": max(megabytes),
        "idle_cpu_percent": max(percents),
        "idle_cpu_percent_each": percents,
        "runs": runs,
        "partitions": partitions,
        "idle_seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="What an idle cluster of three nodes costs.")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--json", action="store_true", help="nothing but JSON")
    given = parser.parse_args()
    result = measure(given.runs, given.partitions, given.seconds)
    rounded = {
        key: round(value, 2) if isinstance(value, float) else value for key, value in result.items()
    }
    if not given.json:
        for key, bar in BARS.items():
            print(f"{key:<18} {result[key]:8.2f}   bar {bar:g}")
    print(json.dumps(rounded))


if __name__ == "__main__":
    main()
