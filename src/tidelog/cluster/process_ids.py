"""Processes by number and start time: a number alone may belong to somebody else by now."""

import os
import signal
from pathlib import Path
from typing import NamedTuple

_STATE_FIELD = 0
_START_TIME_FIELD = 19
"""Fields of /proc/PID/stat after the name, which may itself contain anything."""


class ProcessId(NamedTuple):
    pid: int
    start_ticks: int
    """Since the machine started, as the kernel counts them."""

    @classmethod
    def of(cls, pid: int) -> "ProcessId | None":
        """The process that has this number now."""
        fields = _stat(pid)
        return None if fields is None else cls(pid, int(fields[_START_TIME_FIELD]))

    def state(self) -> str:
        """`running`, `paused` or `gone`."""
        fields = _stat(self.pid)
        if fields is None or int(fields[_START_TIME_FIELD]) != self.start_ticks:
            return "gone"
        letter = fields[_STATE_FIELD]
        if letter in "ZX":
            return "gone"
        return "paused" if letter in "Tt" else "running"

    def is_alive(self) -> bool:
        return self.state() != "gone"

    def stands_still(self) -> bool:
        """Whether every thread of it is stopped; the kernel stops one after the other."""
        tasks = Path(f"/proc/{self.pid}/task")
        try:
            threads = [int(each.name) for each in tasks.iterdir()]
        except FileNotFoundError:
            return False
        stats = [_stat(thread) for thread in threads]
        return all(fields is None or fields[_STATE_FIELD] in "Tt" for fields in stats)

    def send(self, number: signal.Signals) -> bool:
        """False if the process is gone."""
        if not self.is_alive():
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()
