"""Which parts of a file the operating system has in memory.

`cachestat` came with Linux 6.5 and Python has no name for it. Where it is missing or refused, the
answer is always that we do not know.
"""

import ctypes
import mmap
import os
import sys

_CACHESTAT = 451  # the same on every architecture


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _Pages(ctypes.Structure):
    _fields_ = (
        ("cached", ctypes.c_uint64),
        ("dirty", ctypes.c_uint64),
        ("in_writeback", ctypes.c_uint64),
        ("evicted", ctypes.c_uint64),
        ("recently_evicted", ctypes.c_uint64),
    )


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def is_in_memory(descriptor: int, position: int, size_bytes: int) -> bool:
    """True if every byte of this part of a file is; False also if nobody can tell."""
    assert size_bytes > 0, size_bytes
    if _libc is None:
        return False
    pages = _Pages()
    asked = _Range(position, size_bytes)
    if _libc.syscall(_CACHESTAT, descriptor, ctypes.byref(asked), ctypes.byref(pages), 0):
        return False
    first, last = position // mmap.PAGESIZE, (position + size_bytes - 1) // mmap.PAGESIZE
    return bool(pages.cached == last - first + 1)


def read_ahead(descriptor: int, *, allowed: bool) -> None:
    """Whether reading through this descriptor also brings into memory what may be read next."""
    if hasattr(os, "posix_fadvise"):
        advice = os.POSIX_FADV_NORMAL if allowed else os.POSIX_FADV_RANDOM
        os.posix_fadvise(descriptor, 0, 0, advice)
