"""What the kernel knows of the processes of a cluster, the same way for both systems."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from tidelog.bench.compare.system import Running

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
START_FIELD = 19
"""Of /proc/PID/stat after the name: ticks since the machine started."""
SAMPLE_EVERY_S = 0.1
STEADY = 0.8
"""A window does not fall any more if it is at least this part of the one before."""


def seconds_since_start(running: Running) -> float:
    """Since the first of its processes was started, whatever was prepared before."""
    return max(age_of(running.pid(each)) for each in running.node_ids)


def age_of(pid: int) -> float:
    """Seconds since a process was started, to a hundredth."""
    stat = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - start_of(stat)


def start_of(stat: str) -> float:
    """Seconds from the start of the machine to that of the process; its name may be anything."""
    return int(stat.rpartition(")")[2].split()[START_FIELD]) / TICKS_PER_SECOND


def cpu_share(running: Running, seconds: float) -> float:
    """Which part of one core all nodes together use while they are left alone."""
    before, begin = running.cpu_seconds(), time.perf_counter()
    time.sleep(seconds)
    return (running.cpu_seconds() - before) / (time.perf_counter() - begin)


def rss_during(running: Running, is_over: Callable[[], bool]) -> int:
    """The most memory all nodes together held at one time."""
    most = running.rss_bytes()
    while not is_over():
        time.sleep(SAMPLE_EVERY_S)
        most = max(most, running.rss_bytes())
    return most


def settled_cpu_share(running: Running, window_s: float, *, windows_max: int = 12) -> float:
    """Of a core, once it does not fall any more: what was started a moment ago still compiles,
    and has work left from partitions that were just made."""
    share = cpu_share(running, window_s)
    for _ in range(windows_max - 1):
        earlier, share = share, cpu_share(running, window_s)
        if share > STEADY * earlier:
            return share
    return share
