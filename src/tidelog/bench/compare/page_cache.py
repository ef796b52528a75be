"""The page cache, as it shall be before something is measured."""

import os
from collections.abc import Iterable
from pathlib import Path


def settle() -> None:
    """What earlier rows left to be written goes to the disk now, and not during the next row."""
    os.sync()


def evict(directories: Iterable[str], suffix: str = ".log") -> int:
    """Takes every segment below out, so that who reads it next waits for the disk; the number
    of bytes. Pages that were never written stay in memory, so each file is synced first."""
    total_bytes = 0
    for directory in directories:
        # `os.walk` goes on when a broker deletes a directory in the meantime; `rglob` raises.
        for place, _, names in os.walk(directory):
            total_bytes += sum(_evict(Path(place, each)) for each in names if each.endswith(suffix))
    return total_bytes


def _evict(path: Path) -> int:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return 0  # deleted by its broker a moment ago
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)
