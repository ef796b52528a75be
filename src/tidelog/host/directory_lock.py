"""One process per log directory: an advisory lock that the kernel releases when we die."""

import fcntl
import os

FILE_NAME = ".lock"


class DirectoryLock:
    """The lock of the directory `root`. The file stays; only the lock on it means anything."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._path = os.path.join(root, FILE_NAME)
        self._descriptor = -1

    def acquire(self) -> bool:
        """False if another process has it."""
        assert self._descriptor < 0, f"{self._path} is held already"
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
