"""The real disk: a directory of the operating system.

Positions are explicit (`pread`, `pwritev`), so that readers and the writer of a file never
share a cursor. Every OSError names the path: "no space left" without a file name is no
help to the person who is paged.

A sync may run on another thread, on a descriptor of its own that nobody else closes. The kernel
reports a writeback error only once to all copies of a descriptor: if two of them sync at the same
time, one gets the error and the other gets success. Therefore the syncs of an open file run one
after another, and after a failure all later ones fail too.
"""

import os
import threading
from collections.abc import Sequence

from tidelog.host import page_cache
from tidelog.host.file_range import OpenRange
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
        self.start_sync_dir(path).run()

    def start_sync_dir(self, path: str) -> "DirectorySyncing":
        full = self._full(path)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        return DirectorySyncing(os.open(full, flags), full)

    def _full(self, path: str) -> str:
        names = [name for name in path.split("/") if name not in ("", ".")]
        assert ".." not in names, path
        assert not path.startswith("/"), path
        return os.path.join(self._root, *names)


class OpenFile:
    """An open file of a `FileDisk`."""

    __slots__ = ("_descriptor", "_path", "_syncs")

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self._path = path
        self._syncs = _Syncs(path)

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

    def range_in_memory(self, position: int, size_bytes: int) -> OpenRange | None:
        if not page_cache.is_in_memory(self._descriptor, position, size_bytes):
            return None
        return OpenRange(self._descriptor, self._path, position, size_bytes)

    def read_ahead(self, *, allowed: bool) -> None:
        try:
            page_cache.read_ahead(self._descriptor, allowed=allowed)
        except OSError as error:
            raise _named(error, self._path) from None

    def write(self, position: int, data: Buffer | Sequence[Buffer]) -> None:
        try:
            if isinstance(data, Buffer):
                written = os.pwrite(self._descriptor, data, position)
                if written == len(data):
                    return
                position += written
                data = [memoryview(data)[written:]]
            buffers = [memoryview(part) for part in data]
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
        self._syncs.sync(self._descriptor)

    def start_sync(self) -> "FileSyncing":
        try:
            descriptor = os.dup(self._descriptor)
        except OSError as error:
            raise _named(error, self._path) from None
        return FileSyncing(descriptor, self._syncs)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class FileSyncing:
    """A sync of an open file, on a copy of its descriptor."""

    __slots__ = ("_descriptor", "_syncs")

    def __init__(self, descriptor: int, syncs: "_Syncs") -> None:
        self._descriptor = descriptor
        self._syncs = syncs

    def run(self) -> None:
        try:
            self._syncs.sync(self._descriptor)
        finally:
            self.release()

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class DirectorySyncing:
    """A sync of the names in a directory."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self._path = path

    def run(self) -> None:
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise _named(error, self._path) from None
        finally:
            self.release()

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class _Syncs:
    """What the copies of one descriptor must know of each other's syncs."""

    __slots__ = ("_error", "_lock", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._error: OSError | None = None

    def sync(self, descriptor: int) -> None:
        with self._lock:
            if self._error is not None:
                raise self._error
            try:
                # It also writes the size, which is all of the inode that reading needs.
                os.fdatasync(descriptor)
            except OSError as error:
                self._error = _named(error, self._path)
                raise self._error from None


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
