"""The ports: everything a node may know of time, files and chance.

The real versions live beside this file; `tidelog.sim` gives virtual ones. Nothing above
this layer opens a file or reads a clock by itself.
"""

from collections.abc import Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class DiskFile(Protocol):
    """An open file. Positions are explicit: nobody shares a cursor."""

    def size(self) -> int: ...
    def read(self, position: int, size_bytes: int) -> bytes:
        """Up to `size_bytes`; fewer only at the end of the file."""
        ...

    def write(self, position: int, data: Buffer | Sequence[Buffer]) -> None:
        """All of it, or an OSError."""
        ...

    def truncate(self, size_bytes: int) -> None: ...
    def sync(self) -> None:
        """Data and size are on stable storage afterwards. After an error they are unknown."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """A directory tree. Paths are relative to its root, with `/` between names."""

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        """For reading and writing; FileNotFoundError unless `create`."""
        ...

    def exists(self, path: str) -> bool: ...
    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted. FileNotFoundError if there is none."""
        ...

    def make_dir(self, path: str) -> None:
        """Also the parents; no error if it is there."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Atomic; replaces a file at `target`. Lasting only after `sync_dir` of the parent."""
        ...

    def remove(self, path: str) -> None:
        """A file, or an empty directory."""
        ...

    def sync_dir(self, path: str) -> None:
        """Names created, renamed and removed in this directory last afterwards."""
        ...


class Clock(Protocol):
    """`monotonic_ms` for leases and waits; `wall_ms` only for timestamps and retention."""

    def monotonic_ms(self) -> int: ...
    def wall_ms(self) -> int: ...


class Entropy(Protocol):
    """The only source of chance: ids, jitter, timeouts."""

    def below(self, limit: int) -> int: ...
    def uuid(self) -> bytes: ...
