"""Takes files out of the page cache, so that what reads them next waits for the disk."""

import os
from collections.abc import Iterable
from pathlib import Path


def evict(directories: Iterable[str], suffix: str = ".log") -> int:
    """Every segment below; the number of bytes. Pages that were never written stay in memory,
    so each file is synced first."""
    total_bytes = 0
    for directory in directories:
        for path in Path(directory).rglob(f"*{suffix}"):
            total_bytes += _evict(path)
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
