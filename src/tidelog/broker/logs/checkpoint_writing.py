"""Checkpoints of log directories, written beside the event loop.

Nobody waits for those that are written by the clock. Each file is written once for all logs that
changed; what changes while it is written is written behind it.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from tidelog.host import tasks
from tidelog.host.ports import Workers
from tidelog.storage.errors import NoSpace, StorageError
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.offset_checkpoints import write_all


class CheckpointWriting:
    """One writing at a time, for all directories of a broker."""

    __slots__ = ("_directories", "_on_offline", "_requested", "_running", "_worker")

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        worker: Workers,
        on_offline: Callable[[Exception], None],
    ) -> None:
        self._directories = directories
        self._worker = worker
        self._on_offline = on_offline
        self._requested = False
        self._running: asyncio.Task[None] | None = None

    def request(self) -> None:
        """Write what has changed since it was written last."""
        self._requested = True
        if self._running is None:
            self._running = tasks.begin(self._write())

    async def stop(self) -> None:
        while self._running is not None:
            await asyncio.wait([self._running])
        self._worker.close()

    async def _write(self) -> None:
        try:
            while self._requested:
                self._requested = False
                for directory in self._directories:
                    await self._write_one(directory)
        except StorageError as error:
            self._on_offline(error)
        finally:
            self._running = None

    async def _write_one(self, directory: LogDirectory) -> None:
        """On a full disk the old content stays, and is still true: the clock asks again."""
        pending = directory.checkpoints.start_writing()
        try:
            await self._worker.run(partial(write_all, pending))
        except NoSpace:
            return
