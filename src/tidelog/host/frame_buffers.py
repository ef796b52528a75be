"""Reused memory for frames that do not arrive in one piece.

A new buffer is filled with zeros before the first byte of a frame arrives, and its pages are cold.
That was a twentieth of what it cost the brokers to take large requests.
"""

from collections import deque

POOLED_MIN_BYTES = 64 * 1024
POOLED_MAX_BYTES = 2 * 1024 * 1024
"""Larger frames are rare, and keeping memory for them would be dear."""
KEPT_MAX = 4


class Scratch(bytearray):
    """What every connection of a loop reads into: a frame in it has to be copied to be kept."""

    __slots__ = ()


class FrameBuffers:
    """Owner of a few buffers that were used lately; those in use are left alone."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: deque[bytearray] = deque(maxlen=KEPT_MAX)

    def take(self, size_bytes: int) -> memoryview:
        """Memory of this size, with anything in it. It is free again when the last view on it is
        gone: whoever keeps a part of a frame need not say so."""
        if not POOLED_MIN_BYTES <= size_bytes <= POOLED_MAX_BYTES:
            return memoryview(bytearray(size_bytes))
        for kept in self._kept:
            if size_bytes <= len(kept) and _is_free(kept):
                return memoryview(kept)[:size_bytes]
        fresh = bytearray(size_bytes)
        self._kept.append(fresh)
        return memoryview(fresh)


def _is_free(buffer: bytearray) -> bool:
    """Python refuses to resize what somebody has a view on."""
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return False
    return True
