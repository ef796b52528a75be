"""How full a file system is."""

import os

from tidelog.host.ports import DiskSpace


def disk_space(path: str) -> DiskSpace | None:
    """Of the file system around a path, as an ordinary user may use it; None if it is gone."""
    try:
        figures = os.statvfs(path)
    except OSError:
        return None
    return DiskSpace(figures.f_blocks * figures.f_frsize, figures.f_bavail * figures.f_frsize)
