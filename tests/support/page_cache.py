"""Files that leave memory, so that who reads them next reads the disk."""

import os
from pathlib import Path

import pytest

from tidelog.host import page_cache


def evict(path: Path, position: int = 0, size_bytes: int = 0) -> None:
    """A part of a file, or all of it. Pages that were never written stay, so it is synced."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, position, size_bytes, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def flip_on_disk(path: Path, position: int, *, bit: int = 0, size_bytes: int = 0) -> None:
    """A bit that went bad where nobody sees it: so many bytes from its page on, or all
    of the file, are on disk only."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        (byte,) = os.pread(descriptor, 1, position)
        os.pwrite(descriptor, bytes([byte ^ 1 << bit]), position)
    finally:
        os.close(descriptor)
    evict(path, position & ~4095 if size_bytes else 0, size_bytes)


def require_a_system_that_tells(tmp_path: Path) -> None:
    """Skips, with the reason, where nobody can say what is in memory, or a file cannot leave it."""
    path = tmp_path / "probe"
    path.write_bytes(bytes(1 << 16))
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if not page_cache.is_in_memory(descriptor, 0, 1 << 16):
            pytest.skip("this kernel has no cachestat (Linux 6.5): nothing is sent from files")
        evict(path)
        if page_cache.is_in_memory(descriptor, 0, 1 << 16):
            pytest.skip(f"files below {tmp_path} cannot leave memory: put them on a disk")
    finally:
        os.close(descriptor)
    path.unlink()
