"""The files of a checkpoint, as Spark sees them: directories, temporary files, renames.

A store has none of these. A temporary file stays in memory until it gets its name. Then it becomes
an object, and only if there is none of that name yet: two drivers cannot plan the same batch.
"""

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.spark.checkpoint_store.objects import AlreadyThere, Objects

if TYPE_CHECKING:
    from tidelog.spark.tables.stores import Store

TEMPORARY: Final = ".tmp"


class Status(NamedTuple):
    """Of a file, or of a directory."""

    name: str
    is_directory: bool
    size_bytes: int = 0
    modified_ms: int = 0


class CheckpointFiles:
    """Everything below one place. May be used from any thread."""

    __slots__ = ("_directories", "_lock", "_objects", "_temporary")

    def __init__(self, place: "Store") -> None:
        self._objects = Objects(place)
        self._lock = threading.Lock()
        self._temporary: dict[str, bytes] = {}
        self._directories: set[str] = set()
        """Those that were made and may be empty: stores have no such thing."""

    def status(self, path: str) -> Status:
        """FileNotFoundError if there is neither a file nor a directory."""
        name = path.rpartition("/")[2]
        with self._lock:
            held = self._temporary.get(path)
            made = path in self._directories
        if held is not None:
            return Status(name, is_directory=False, size_bytes=len(held))
        if path and not made:
            found = self._objects.find(path)
            if found is not None:
                return Status(name, False, found.size_bytes, found.modified_ms)
        if not path or made or self._objects.are_below(path):
            return Status(name, is_directory=True)
        raise FileNotFoundError(path)

    def listed(self, path: str) -> Iterator[Status]:
        """What is in a directory, or the file itself. Temporary files are nobody's business."""
        status = self.status(path)
        if not status.is_directory:
            yield status._replace(name="")
            return
        objects, directories = self._objects.within(path)
        for each in objects:
            yield Status(each.name, False, each.size_bytes, each.modified_ms)
        with self._lock:
            above = f"{path}/" if path else ""
            inner = {each[len(above) :] for each in self._directories if each.startswith(above)}
        for name in sorted({*directories, *(each for each in inner if each and "/" not in each)}):
            yield Status(name, is_directory=True)

    def make_directory(self, path: str) -> None:
        with self._lock:
            self._directories.add(path)

    def read(self, path: str) -> bytes:
        with self._lock:
            held = self._temporary.get(path)
        return held if held is not None else self._objects.read(path)

    def write(self, path: str, data: bytes, *, overwrite: bool) -> None:
        """FileExistsError if there is another file, and it is not to be written over."""
        if path.endswith(TEMPORARY):
            with self._lock:
                self._temporary[path] = data
            return
        self._put(path, data, overwrite=overwrite)

    def rename(self, path: str, to: str, *, overwrite: bool) -> None:
        """FileNotFoundError, or FileExistsError as for `write`."""
        with self._lock:
            held = self._temporary.get(path)
        data = held if held is not None else self._objects.read(path)
        self._put(to, data, overwrite=overwrite)
        if held is None:
            self._objects.remove(path)
        with self._lock:
            self._temporary.pop(path, None)

    def remove(self, path: str, *, recursive: bool) -> bool:
        """Whether there was anything."""
        with self._lock:
            there = self._temporary.pop(path, None) is not None or path in self._directories
            self._directories.discard(path)
        there = self._objects.remove(path) or there
        if recursive:
            there = self._objects.remove_below(path) or there
        return there

    def _put(self, path: str, data: bytes, *, overwrite: bool) -> None:
        try:
            self._objects.write(path, data, overwrite=overwrite)
        except AlreadyThere:
            # The answer to an earlier try may have been lost on its way.
            if self._objects.read(path) != data:
                raise FileExistsError(path) from None
