"""The real disk: a directory of the operating system.

Positions are explicit (`pread`, `pwritev`), so that readers and the writer of a file never
share a cursor. Every OSError names the path: "no space left" without a file name is no
help to the person who is paged.
"""

import os
from collections.abc import Sequence

from tidelog.host.ports import Buffer

_MOST_BUFFERS = 1024
"""Linux takes no more buffers than this in one `pwritev` (IOV_MAX)."""
_FILE_MODE = 0o640


class FileDisk:
    """Everything below `root`, which must be a directory."""

    __slots__ = ("_root",)

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = os.path.realpath(root)
        if not os.path.isdir(self._root):
            raise NotADirectoryError(f"{self._root} is not a directory")

    def open(self, path: str, *, create: bool = False) -> "OpenFile":
        full = self._full(path)
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return OpenFile(os.open(full, flags, _FILE_MODE), full)

    def exists(self, path: str) -> bool:
        return os.path.lexists(self._full(path))

    def list(self, path: str) -> "list[str]":
        return sorted(os.listdir(self._full(path)))

    def make_dir(self, path: str) -> None:
        os.makedirs(self._full(path), exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.rename(self._full(source), self._full(target))

    def remove(self, path: str) -> None:
        full = self._full(path)
        try:
            os.unlink(full)
        except IsADirectoryError:
            os.rmdir(full)

    def sync_dir(self, path: str) -> None:
        full = self._full(path)
        descriptor = os.open(full, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise _named(error, full) from None
        finally:
            os.close(descriptor)

    def _full(self, path: str) -> str:
        names = [name for name in path.split("/") if name not in ("", ".")]
        assert ".." not in names, path
        assert not path.startswith("/"), path
        return os.path.join(self._root, *names)


class OpenFile:
    """An open file of a `FileDisk`."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self._path = path

    def size(self) -> int:
        try:
            return os.fstat(self._descriptor).st_size
        except OSError as error:
            raise _named(error, self._path) from None

    def read(self, position: int, size_bytes: int) -> bytes:
        try:
            data = os.pread(self._descriptor, size_bytes, position)
            if len(data) == size_bytes or not data:
                return data
            parts = [data]  # cut short by a signal or by the end of the file
            got = len(data)
            while got < size_bytes and (
                more := os.pread(self._descriptor, size_bytes - got, position + got)
            ):
                parts.append(more)
                got += len(more)
        except OSError as error:
            raise _named(error, self._path) from None
        return b"".join(parts)

    def write(self, position: int, data: Buffer | Sequence[Buffer]) -> None:
        buffers = [memoryview(part) for part in ([data] if isinstance(data, Buffer) else data)]
        try:
            while buffers:
                written = os.pwritev(self._descriptor, buffers[:_MOST_BUFFERS], position)
                position += written
                buffers = _after(buffers, written)
        except OSError as error:
            raise _named(error, self._path) from None

    def truncate(self, size_bytes: int) -> None:
        try:
            os.ftruncate(self._descriptor, size_bytes)
        except OSError as error:
            raise _named(error, self._path) from None

    def sync(self) -> None:
        # fdatasync also writes the size, which is all of the inode that reading needs.
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise _named(error, self._path) from None

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _after(buffers: Sequence[memoryview], written: int) -> "list[memoryview]":
    """What is left of the buffers after a write that may have been short."""
    left = []
    for buffer in buffers:
        if written >= len(buffer):
            written -= len(buffer)
        else:
            left.append(buffer[written:])
            written = 0
    return left


def _named(error: OSError, path: str) -> OSError:
    """The same error with the path, for calls that only know a descriptor."""
    return OSError(error.errno, error.strerror, path)
