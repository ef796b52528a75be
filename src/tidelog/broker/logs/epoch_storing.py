"""Epoch checkpoints, written after the appends that began the epochs.

Nobody waits for them. When thousands of partitions get their first record, or their next leader,
at the same moment, thousands of files have to be synced; that is done on threads, whose syncs the
file system joins, some files at a time.
"""

import asyncio
from collections.abc import Callable

from tidelog.host import tasks
from tidelog.host.ports import Workers
from tidelog.storage.errors import StorageError
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.unstored_epochs import Round

AT_ONCE = 32
"""Files that are written in one turn of the event loop."""
THREADS = 8


class EpochStoring:
    """The rounds over one log directory, one at a time."""

    __slots__ = ("_directory", "_on_offline", "_running", "_stopped", "_workers")

    def __init__(
        self,
        directory: LogDirectory,
        on_offline: Callable[[Exception], None],
        workers: Workers,
    ) -> None:
        self._directory = directory
        self._on_offline = on_offline
        self._workers = workers
        self._running: asyncio.Task[None] | None = None
        self._stopped = False

    def begin(self) -> None:
        """Store what is there to store, unless that is under way."""
        if len(self._directory.unstored) and self._running is None and not self._stopped:
            self._running = tasks.begin(self._store())

    async def stop(self) -> None:
        """After the round under way, none follows."""
        self._stopped = True
        if self._running is not None:
            await asyncio.wait([self._running])
        self._workers.close()

    async def _store(self) -> None:
        unstored = self._directory.unstored
        try:
            while not self._stopped and (written := unstored.start(AT_ONCE)):
                named = unstored.name_files(written, await self._synced(written))
                unstored.finish(named, await self._synced(named))
        except StorageError as error:
            self._on_offline(error)
        finally:
            self._running = None

    async def _synced(self, round_: Round) -> OSError | None:
        """The first failure, when all have ended."""
        runs = [self._workers.run(part.syncing.run) for part in round_]
        failure: OSError | None = None
        for ended in await asyncio.gather(*runs, return_exceptions=True):
            if isinstance(ended, OSError):
                failure = failure or ended
            elif ended is not None:
                raise ended
        return failure
