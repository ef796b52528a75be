"""Where tasks put what the commit will read: files of a directory, or objects in a store.

A file appears under its name when it is whole: write, fsync, rename. An object does so by itself,
when its upload is complete; one that never is, is seen by nobody.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from typing import IO, Any, Final, NamedTuple, Protocol

from tidelog.spark.tables.stores import Store
from tidelog.wire.records import Buffer

PARTIAL: Final = ".partial"


class StagedFile(Protocol):
    def write(self, batch: Buffer) -> None: ...

    def finish(self) -> None:
        """It is whole, durable, and there under its name."""

    def discard(self) -> None:
        """Nothing is left of it."""


class Found(NamedTuple):
    name: str
    age_s: float


def begin(place: Store) -> StagedFile:
    return _LocalFile(place) if place.is_local else _StoredObject(place)


class _LocalFile:
    __slots__ = ("_file", "_path")

    def __init__(self, place: Store) -> None:
        self._path = place.path
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[bytes] = open(f"{self._path}{PARTIAL}", "xb", buffering=0)  # noqa: SIM115

    def write(self, batch: Buffer) -> None:
        left = memoryview(batch)
        while left:
            left = left[self._file.write(left) :]

    def finish(self) -> None:
        os.fsync(self._file.fileno())
        self._file.close()
        os.rename(f"{self._path}{PARTIAL}", self._path)

    def discard(self) -> None:
        self._file.close()
        self._path.with_name(f"{self._path.name}{PARTIAL}").unlink(missing_ok=True)


class _StoredObject:
    __slots__ = ("_place", "_stream")

    def __init__(self, place: Store) -> None:
        self._place = place
        filesystem, where = place.filesystem()
        self._stream: Any = filesystem.open_output_stream(where)

    def write(self, batch: Buffer) -> None:
        self._stream.write(batch)

    def finish(self) -> None:
        self._stream.close()

    def discard(self) -> None:
        """An upload cannot be given up in pyarrow: it is ended, and what came of it removed."""
        with contextlib.suppress(OSError):
            self._stream.close()
            remove(self._place)


def read(place: Store, position: int, size_bytes: int) -> bytearray:
    """Less than was asked for, if it ends before."""
    if place.is_local:
        with open(place.path, "rb", buffering=0) as file:
            file.seek(position)
            found = bytearray(size_bytes)
            del found[file.readinto(found) :]
            return found
    filesystem, where = place.filesystem()
    with filesystem.open_input_file(where) as source:
        return bytearray(source.read_at(size_bytes, position))


def remove(place: Store) -> None:
    if place.is_local:
        place.path.unlink(missing_ok=True)
        return
    filesystem, where = place.filesystem()
    with contextlib.suppress(FileNotFoundError):
        filesystem.delete_file(where)


def listed(directory: Store) -> Iterator[Found]:
    """What cannot be looked at, or has gone meanwhile, is left out."""
    now = time.time()
    if directory.is_local:
        with contextlib.suppress(OSError):
            for path in list(directory.path.iterdir()):
                with contextlib.suppress(OSError):
                    yield Found(path.name, now - path.stat().st_mtime)
        return
    from pyarrow.fs import FileSelector  # noqa: PLC0415 - an extra

    filesystem, where = directory.filesystem()
    with contextlib.suppress(OSError):
        for info in filesystem.get_file_info(FileSelector(where, allow_not_found=True)):
            if info.mtime is not None:
                yield Found(info.base_name, now - info.mtime.timestamp())
