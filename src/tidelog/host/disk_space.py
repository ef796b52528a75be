"""How full a file system is, and how full it may become."""

import os
from collections.abc import Callable

from tidelog.host.ports import DiskSpace

RESERVE_BYTES_MAX = 256 * 1024 * 1024
RESERVE_DIVISOR = 100


def default_reserve_bytes(total_bytes: int) -> int:
    """What is kept free of records: one percent of a disk, and no more than 256 MiB."""
    return min(RESERVE_BYTES_MAX, total_bytes // RESERVE_DIVISOR)


def disk_space(path: str) -> DiskSpace | None:
    """Of the file system around a path, as an ordinary user may use it; None if it is gone."""
    try:
        figures = os.statvfs(path)
    except OSError:
        return None
    return DiskSpace(figures.f_blocks * figures.f_frsize, figures.f_bavail * figures.f_frsize)


class SwitchedSpace:
    """`disk_space` of a node that may be broken on purpose: while the switch is on, nothing is
    free, and the node does what it does with full disks."""

    __slots__ = ("_look", "pretends_full")

    def __init__(self, look: Callable[[str], DiskSpace | None] = disk_space) -> None:
        self._look = look
        self.pretends_full = False

    def __call__(self, path: str) -> DiskSpace | None:
        found = self._look(path)
        if found is None or not self.pretends_full:
            return found
        return found._replace(usable_bytes=0)
