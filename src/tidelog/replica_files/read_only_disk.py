"""A node's files, for those who only look at them."""

import os

from tidelog.host.disk import FileDisk, OpenFile


class ReadOnlyDisk(FileDisk):
    """Opens files for reading alone: also those of another user, or of a mounted snapshot."""

    __slots__ = ()

    def open(self, path: str, *, create: bool = False) -> OpenFile:
        assert not create, path
        full = self._full(path)
        return OpenFile(os.open(full, os.O_RDONLY | os.O_CLOEXEC), full)
