"""Log starts that move up because records were deleted, here or at the leader.

A log start is on disk before it is sent to anybody (ADR 0031), in one file for all logs of a
directory. So log starts are collected, and the file is written once for all that moved.
"""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.broker.logs.directories import Directories
from tidelog.broker.replication.hosted import Hosted
from tidelog.core.errors import NO_ERROR, Error
from tidelog.storage.errors import StorageError
from tidelog.storage.log_directory import LogDirectory


class Rise(NamedTuple):
    """A log start that is to move, and who wants to know that it has."""

    hosted: Hosted
    offset: int
    done: Callable[[Error], None]


class LogStarts:
    """Whoever collects settles in the same callback: between the two no log changes."""

    __slots__ = ("_directories", "_rises")

    def __init__(self, directories: Directories) -> None:
        self._directories = directories
        self._rises: list[Rise] = []

    def raise_later(self, hosted: Hosted, offset: int, done: Callable[[Error], None]) -> None:
        self._rises.append(Rise(hosted, offset, done))

    def settle(self) -> None:
        """All that were collected are on disk when this returns, and everybody has been told."""
        rises, self._rises = self._rises, []
        by_directory: dict[LogDirectory, list[Rise]] = {}
        for rise in rises:
            by_directory.setdefault(rise.hosted.directory, []).append(rise)
        for directory, some in by_directory.items():
            error = self._raise(directory, some)
            for rise in some:
                rise.done(error)

    def _raise(self, directory: LogDirectory, rises: list[Rise]) -> Error:
        try:
            directory.raise_log_starts([(rise.hosted.log, rise.offset) for rise in rises])
        except StorageError as error:
            self._directories.on_error(directory, error)
            return error.kafka_error
        return NO_ERROR
