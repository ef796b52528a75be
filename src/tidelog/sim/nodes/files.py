"""The disks of one simulated machine. They outlive its processes."""

from collections.abc import Iterator

from tidelog.host.ports import DiskSpace
from tidelog.sim.disk import Choose, CrashKind, DiskWatcher, Operation, SimDisk

DISK_BYTES = 1 << 30
"""What every disk claims to have."""


class MachineFiles:
    """The `Filesystem` port of a machine."""

    __slots__ = ("_disks", "_locked", "_watcher")

    def __init__(self, watcher: DiskWatcher | None = None) -> None:
        self._disks: dict[str, SimDisk] = {}
        self._locked: set[str] = set()
        self._watcher = watcher

    def add(self, path: str) -> SimDisk:
        """A new, empty directory, in place of what was there."""
        disk = self._disks[path] = SimDisk()
        disk.watcher = self._watcher
        return disk

    def copy(self) -> "MachineFiles":
        """As somebody leaves them who copies the directories of a running node."""
        files = MachineFiles()
        for path, disk in self._disks.items():
            files._disks[path] = disk.crash(CrashKind.PROCESS, lambda _: 0)
        return files

    def disks(self) -> Iterator[SimDisk]:
        return iter(self._disks.values())

    def lose_power(self, choose: Choose) -> None:
        """What was not synced may be gone."""
        self._crash(CrashKind.POWER_LOSS, choose)

    def lose_unsynced(self) -> None:
        """Nothing is left of what was not synced: the hardest that a crash can be."""
        for path, disk in self._disks.items():
            after = self._disks[path] = disk.after_power_loss(())
            after.take_over(disk)

    def detach(self) -> None:
        """What the process still does to its files is lost: it is dead and does not know it."""
        self._crash(CrashKind.PROCESS, lambda _: 0)

    def _crash(self, kind: CrashKind, choose: Choose) -> None:
        for path, disk in self._disks.items():
            after = self._disks[path] = disk.crash(kind, choose)
            after.take_over(disk)
            disk.watcher = None

    def release_locks(self) -> None:
        """The process that held them is gone."""
        self._locked.clear()

    # -- faults

    def fill(self, room_bytes: int) -> None:
        """Somebody else needs the space: only so much is left on each disk."""
        for disk in self._disks.values():
            disk.room_bytes = room_bytes

    def fail(self, operation: Operation, after: int) -> None:
        """This operation fails on every disk from then on, after so many good ones."""
        for disk in self._disks.values():
            disk.inject(operation, after=after, lasting=True)

    def heal(self) -> None:
        """Room for everything, and no more failures."""
        for disk in self._disks.values():
            disk.heal()

    @property
    def fails(self) -> bool:
        """Some operation fails, or will soon."""
        return any(disk.is_told_to_fail for disk in self._disks.values())

    @property
    def errors(self) -> int:
        """Operations that failed since the machines were made."""
        return sum(disk.errors for disk in self._disks.values())

    @property
    def failed_syncs(self) -> int:
        return sum(disk.failed_syncs for disk in self._disks.values())

    def space(self, path: str) -> DiskSpace | None:
        disk = self._disks.get(path)
        if disk is None:
            return None
        room_bytes = disk.room_bytes
        return DiskSpace(DISK_BYTES, DISK_BYTES // 2 if room_bytes is None else room_bytes)

    # -- Filesystem

    def exists(self, path: str) -> bool:
        return path in self._disks

    def is_directory(self, path: str) -> bool:
        return path in self._disks

    def open(self, path: str) -> SimDisk:
        disk = self._disks.get(path)
        if disk is None:
            raise NotADirectoryError(f"{path} is not a directory")
        return disk

    def make_directory(self, path: str) -> None:
        if path not in self._disks:
            self.add(path)

    def lock(self, path: str) -> "FileLock":
        return FileLock(self._locked, path)


class FileLock:
    """The lock of one directory."""

    __slots__ = ("_locked", "_path")

    def __init__(self, locked: set[str], path: str) -> None:
        self._locked = locked
        self._path = path

    def acquire(self) -> bool:
        if self._path in self._locked:
            return False
        self._locked.add(self._path)
        return True

    def release(self) -> None:
        self._locked.discard(self._path)
