"""A file that is whole and durable when it ends, in a directory or in an object store."""

import os
from collections.abc import Callable
from typing import Any

from tidelog.spark.tables.stores import Store


class NewFile:
    """Write to `stream`, then call `end` or `abandon`."""

    __slots__ = ("_place", "stream")

    def __init__(self, directory: Store, name: str) -> None:
        self._place = directory.below(name)
        self.stream: Any
        if directory.is_local:
            path = self._place.path
            path.parent.mkdir(parents=True, exist_ok=True)
            self.stream = path.open("wb")
        else:
            filesystem, where = self._place.filesystem()
            self.stream = filesystem.open_output_stream(where)

    def end(self) -> int:
        """How many bytes it has. A commit must not name bytes that a crash can take."""
        size_bytes = int(self.stream.tell())
        if self._place.is_local:
            self.stream.flush()
            os.fsync(self.stream.fileno())
        self.stream.close()  # an object is there from here on, whole and durable
        return size_bytes

    def abandon(self, close_writer: Callable[[], None]) -> None:
        """After an error, which must not be covered by another: the file may go or stay, as nobody
        names it."""
        try:
            close_writer()
            self.stream.close()
            if self._place.is_local:
                self._place.path.unlink(missing_ok=True)
            else:
                filesystem, where = self._place.filesystem()
                filesystem.delete_file(where)
        except OSError:
            pass
