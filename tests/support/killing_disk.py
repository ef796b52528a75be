"""A disk that kills its own process, as `kill -9` would, in front of a chosen operation.

The live twin of the enumerated crash states: nothing is simulated, the operating system
keeps what it keeps (reliability.md §2.5, point 4).
"""

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence

from tidelog.host.ports import Buffer, Disk, DiskFile, Syncing


class KillingDisk:
    """Wraps any disk. The mutating operation number `kill_at`, counted from 0, never runs."""

    def __init__(self, disk: Disk, kill_at: int) -> None:
        self._disk = disk
        self._left = kill_at

    def about_to_change(self) -> None:
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1

    def open(self, path: str, *, create: bool = False) -> "KillingFile":
        if create and not self._disk.exists(path):
            self.about_to_change()
        return KillingFile(self, self._disk.open(path, create=create))

    def exists(self, path: str) -> bool:
        return self._disk.exists(path)

    def list(self, path: str) -> "list[str]":
        return self._disk.list(path)

    def make_dir(self, path: str) -> None:
        self.about_to_change()
        self._disk.make_dir(path)

    def rename(self, source: str, target: str) -> None:
        self.about_to_change()
        self._disk.rename(source, target)

    def remove(self, path: str) -> None:
        self.about_to_change()
        self._disk.remove(path)

    def sync_dir(self, path: str) -> None:
        self.about_to_change()
        self._disk.sync_dir(path)

    def start_sync_dir(self, path: str) -> "KillingSyncing":
        return KillingSyncing(self, self._disk.start_sync_dir(path))


class KillingFile:
    """An open file of a `KillingDisk`."""

    def __init__(self, disk: KillingDisk, file: DiskFile) -> None:
        self._disk = disk
        self._file = file
        self.size = file.size
        self.read = file.read
        self.range_in_memory = file.range_in_memory
        self.read_ahead = file.read_ahead
        self.close = file.close

    def write(self, position: int, data: Buffer | Sequence[Buffer]) -> None:
        self._disk.about_to_change()
        self._file.write(position, data)

    def truncate(self, size_bytes: int) -> None:
        self._disk.about_to_change()
        self._file.truncate(size_bytes)

    def sync(self) -> None:
        self._disk.about_to_change()
        self._file.sync()

    def start_sync(self) -> "KillingSyncing":
        return KillingSyncing(self._disk, self._file.start_sync())


class KillingSyncing:
    """A sync of a `KillingDisk`."""

    def __init__(self, disk: KillingDisk, syncing: Syncing) -> None:
        self._disk = disk
        self._syncing = syncing
        self.release = syncing.release

    def run(self) -> None:
        self._disk.about_to_change()
        self._syncing.run()


def killed(workload: Callable[[KillingDisk], None], disk: Disk, kill_at: int) -> bool:
    """Runs the workload in a child process; True if it was killed, False if it got through."""
    with warnings.catch_warnings():
        # The child only touches files and then leaves without returning.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        try:
            workload(KillingDisk(disk, kill_at))
            code = 0
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL, status
        return True
    assert os.waitstatus_to_exitcode(status) == 0, status
    return False
