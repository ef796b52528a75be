"""The disks of one simulated machine. They outlive its processes."""

from tidelog.sim.disk import Choose, CrashKind, SimDisk


class MachineFiles:
    """The `Filesystem` port of a machine."""

    __slots__ = ("_disks", "_locked")

    def __init__(self) -> None:
        self._disks: dict[str, SimDisk] = {}
        self._locked: set[str] = set()

    def add(self, path: str) -> SimDisk:
        """A new, empty directory."""
        disk = self._disks[path] = SimDisk()
        return disk

    def lose_power(self, choose: Choose) -> None:
        """What was not synced may be gone."""
        for path, disk in self._disks.items():
            self._disks[path] = disk.crash(CrashKind.POWER_LOSS, choose)

    def release_locks(self) -> None:
        """The process that held them is gone."""
        self._locked.clear()

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
