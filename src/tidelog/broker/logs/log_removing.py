"""Deleted logs, removed beside the event loop.

Every removal renames a directory, has that synced and deletes its files; on a busy disk a topic of
some hundred partitions takes seconds. A round takes some of them together: one sync for all their
names, one writing of the checkpoints that spoke of them. A log is out of service before its round
begins. Until its name is free, no new log of that name is made.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from tidelog.host import tasks
from tidelog.host.ports import Workers
from tidelog.storage.errors import NoSpace, StorageError
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.offset_checkpoints import PendingCheckpoint, write_all
from tidelog.storage.removal import Removal, discard_files, take_names_away

AT_ONCE = 64
"""Logs in one round."""


class LogRemoving:
    """One round at a time, for all directories of a broker."""

    __slots__ = ("_directories", "_on_free", "_on_offline", "_running", "_stopped", "_worker")

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        worker: Workers,
        on_offline: Callable[[Exception], None],
    ) -> None:
        self._directories = directories
        self._on_offline = on_offline
        self._on_free: Callable[[], None] | None = None
        self._worker = worker
        self._running: asyncio.Task[None] | None = None
        self._stopped = False

    def begin(self, on_free: Callable[[], None]) -> None:
        """Remove what has left, until there is nothing; `on_free` hears when names are free."""
        self._on_free = on_free
        if self._running is None:
            self._running = tasks.begin(self._remove())

    async def stop(self) -> None:
        """All names are taken away before this returns; the next start removes their files."""
        self._stopped = True
        while self._running is not None:
            await asyncio.wait([self._running])
        self._worker.close()

    async def _remove(self) -> None:
        try:
            while removals := self._next():
                await self._round(*removals)
        except NoSpace:
            pass  # `begin` is called again by the clock
        except StorageError as error:
            self._on_offline(error)
        finally:
            self._running = None

    def _next(self) -> tuple[LogDirectory, list[Removal]] | None:
        for directory in self._directories:
            if directory.leaving:
                return directory, directory.next_removals(AT_ONCE)
        return None

    async def _round(self, directory: LogDirectory, removals: Sequence[Removal]) -> None:
        await self._worker.run(partial(take_names_away, directory.disk, removals))
        directory.names_taken(removals)
        pending = directory.checkpoints.start_writing()
        if not self._stopped and self._on_free is not None:
            self._on_free()
        files = () if self._stopped else removals
        await self._worker.run(partial(_finish, directory, pending, files))


def _finish(
    directory: LogDirectory, pending: Sequence[PendingCheckpoint], removals: Sequence[Removal]
) -> None:
    """Checkpoints first: one that speaks of a log without any directory is taken for a loss."""
    try:
        write_all(pending)
    except NoSpace:  # they are written by the clock too, and the files that go make space
        discard_files(directory.disk, removals)
        return
    discard_files(directory.disk, removals)
