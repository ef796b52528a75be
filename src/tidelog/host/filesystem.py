"""The real file system: the `Filesystem` port."""

import os

from tidelog.host.directory_lock import DirectoryLock
from tidelog.host.disk import FileDisk


class SystemFilesystem:
    """Directories of this machine."""

    __slots__ = ()

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def open(self, path: str) -> FileDisk:
        return FileDisk(path)

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def lock(self, path: str) -> DirectoryLock:
        return DirectoryLock(path)
