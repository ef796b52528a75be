"""The disk as storage sees it: errors have a type, and a broken directory stays broken.

After a failed fsync the kernel may have dropped the dirty pages and marked them clean, so a
second fsync that succeeds proves nothing (reliability.md §2.5). Therefore the first failed
sync, read or write takes the directory offline for good: every later operation is refused,
until a new process reads from the disk what is really there. A full device is different: the
write did not happen, the caller cuts back what it left, and the directory stays online.
"""

import errno
from collections.abc import Sequence

from tidelog.host.ports import Buffer, Disk, DiskFile, FileRange, Syncing
from tidelog.storage.errors import DirectoryOffline, NoSpace, StorageError

_FULL = (errno.ENOSPC, errno.EDQUOT)


class GuardedDisk:
    """A `Disk` that remembers its first failure."""

    __slots__ = ("_inner", "failure")

    def __init__(self, inner: Disk) -> None:
        self._inner = inner
        self.failure: DirectoryOffline | None = None

    @property
    def online(self) -> bool:
        return self.failure is None

    def refuse_if_offline(self) -> None:
        if self.failure is not None:
            raise self.failure

    def failed(self, path: str, operation: str, error: OSError) -> StorageError:
        """The typed error to raise; anything but a full device takes the directory offline."""
        if error.errno in _FULL and operation != "sync":
            return NoSpace(path)
        if self.failure is None:
            self.failure = DirectoryOffline(path, operation, error)
        return self.failure

    def open(self, path: str, *, create: bool = False) -> "GuardedFile":
        self.refuse_if_offline()
        try:
            return GuardedFile(self._inner.open(path, create=create), path, self)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self.failed(path, "open", error) from error

    def exists(self, path: str) -> bool:
        self.refuse_if_offline()
        return self._inner.exists(path)

    def list(self, path: str) -> list[str]:
        self.refuse_if_offline()
        try:
            return self._inner.list(path)
        except (FileNotFoundError, NotADirectoryError):
            raise
        except OSError as error:
            raise self.failed(path, "list", error) from error

    def make_dir(self, path: str) -> None:
        self.refuse_if_offline()
        try:
            self._inner.make_dir(path)
        except OSError as error:
            raise self.failed(path, "make directory", error) from error

    def rename(self, source: str, target: str) -> None:
        self.refuse_if_offline()
        try:
            self._inner.rename(source, target)
        except OSError as error:
            raise self.failed(source, "rename", error) from error

    def remove(self, path: str) -> None:
        self.refuse_if_offline()
        try:
            self._inner.remove(path)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self.failed(path, "remove", error) from error

    def sync_dir(self, path: str) -> None:
        self.refuse_if_offline()
        try:
            self._inner.sync_dir(path)
        except OSError as error:
            raise self.failed(path, "sync", error) from error

    def start_sync_dir(self, path: str) -> Syncing:
        """Who ran it takes an error to `sync_ended`."""
        self.refuse_if_offline()
        try:
            return self._inner.start_sync_dir(path)
        except OSError as error:
            raise self.failed(path, "sync", error) from error

    def sync_ended(self, path: str, error: OSError | None) -> None:
        """Back from another thread. DirectoryOffline if the sync failed, or anything else did
        while it ran: it is then not known what the sync is worth."""
        if error is not None:
            raise self.failed(str(error.filename or path), "sync", error) from error
        self.refuse_if_offline()


class GuardedFile:
    """A `DiskFile` of a guarded disk."""

    __slots__ = ("_disk", "_inner", "path")

    def __init__(self, inner: DiskFile, path: str, disk: GuardedDisk) -> None:
        self._inner = inner
        self.path = path
        self._disk = disk

    def size(self) -> int:
        self._disk.refuse_if_offline()
        return self._inner.size()

    def read(self, position: int, size_bytes: int) -> bytes:
        self._disk.refuse_if_offline()
        try:
            return self._inner.read(position, size_bytes)
        except OSError as error:
            raise self._disk.failed(self.path, "read", error) from error

    def range_in_memory(self, position: int, size_bytes: int) -> FileRange | None:
        self._disk.refuse_if_offline()
        return self._inner.range_in_memory(position, size_bytes)

    def read_ahead(self, *, allowed: bool) -> None:
        self._disk.refuse_if_offline()
        try:
            self._inner.read_ahead(allowed=allowed)
        except OSError as error:
            raise self._disk.failed(self.path, "read", error) from error

    def write(self, position: int, data: Buffer | Sequence[Buffer]) -> None:
        if self._disk.failure is not None:  # in place: every append comes by
            raise self._disk.failure
        try:
            self._inner.write(position, data)
        except OSError as error:
            raise self._disk.failed(self.path, "write", error) from error

    def truncate(self, size_bytes: int) -> None:
        self._disk.refuse_if_offline()
        try:
            self._inner.truncate(size_bytes)
        except OSError as error:
            raise self._disk.failed(self.path, "truncate", error) from error

    def sync(self) -> None:
        """One attempt. A second one would prove nothing."""
        self._disk.refuse_if_offline()
        try:
            self._inner.sync()
        except OSError as error:
            raise self._disk.failed(self.path, "sync", error) from error

    def start_sync(self) -> Syncing:
        """Who ran it takes an error to `GuardedDisk.sync_ended`."""
        self._disk.refuse_if_offline()
        try:
            return self._inner.start_sync()
        except OSError as error:
            raise self._disk.failed(self.path, "sync", error) from error

    def open_again(self) -> "GuardedFile":
        """For a reader beside the owner: each closes its own."""
        return self._disk.open(self.path)

    def sync_ended(self, error: OSError | None) -> None:
        """Back from another thread: see `GuardedDisk.sync_ended`."""
        self._disk.sync_ended(self.path, error)

    def close(self) -> None:
        """Also when offline: closing gives the descriptor back and promises nothing."""
        self._inner.close()


def guard(disk: Disk) -> GuardedDisk:
    """The guarded face of a disk; a disk that has one keeps it."""
    return disk if isinstance(disk, GuardedDisk) else GuardedDisk(disk)
