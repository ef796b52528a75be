"""What the kernel says of a process: memory and processor time."""

import os
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_USER_FIELD, _SYSTEM_FIELD = 11, 12
"""Fields of /proc/PID/stat after the name."""


def rss_bytes(pid: int) -> int:
    """What of its memory is resident; 0 if the process is gone."""
    for line in _text(f"/proc/{pid}/status").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def cpu_seconds(pid: int) -> float:
    """What it has used of processors, in user and kernel mode; 0 if the process is gone."""
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if not fields:
        return 0.0
    return (int(fields[_USER_FIELD]) + int(fields[_SYSTEM_FIELD])) / TICKS_PER_SECOND


def _text(path: str) -> str:
    try:
        return Path(path).read_text("ascii", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
