"""Writes down, now and then, how much of the metadata log is known to be committed."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from tidelog.core.types import NO_OFFSET
from tidelog.host.node_host import NodeHost
from tidelog.host.ports import Disk, Workers
from tidelog.storage.committed_offset import (
    FILE_NAME,
    read_committed_offset,
    write_committed_offset,
)
from tidelog.storage.errors import NoSpace
from tidelog.storage.guarded_disk import guard
from tidelog.storage.metadata_log import DIRECTORY

PATH = f"{DIRECTORY}/{FILE_NAME}"

FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 500, 10_000
"""Between two writes. Even an idle controller commits twice a second, and an old mark protects
nearly as well, but the first commits of a new cluster are all there is to know it by."""


class CommittedMark:
    """One writer at a time, on the thread that syncs the metadata log."""

    __slots__ = (
        "_disk",
        "_fail",
        "_host",
        "_next_ms",
        "_offset",
        "_pause_ms",
        "_workers",
        "_writing",
    )

    def __init__(
        self, disk: Disk, host: NodeHost, workers: Workers, fail: Callable[[Exception], None]
    ) -> None:
        self._disk = guard(disk)
        self._host = host
        self._workers = workers
        self._fail = fail
        self._next_ms = 0
        self._pause_ms = FIRST_PAUSE_MS
        self._writing: asyncio.Future[None] | None = None
        self._offset = NO_OFFSET

    def read(self) -> int:
        """What an earlier life of this node knew; -1 if nothing."""
        self._offset = read_committed_offset(self._disk, PATH)
        return self._offset

    def note(self, offset: int) -> None:
        """Everything below is committed, and synced here."""
        now_ms = self._host.now_ms()
        if now_ms >= self._next_ms and self._writing is None and offset > self._offset:
            self._next_ms = now_ms + self._pause_ms
            self._pause_ms = min(2 * self._pause_ms, LONGEST_PAUSE_MS)
            self._offset = offset
            self._writing = self._workers.run(partial(self._write, offset))
            self._writing.add_done_callback(self._written)

    async def finish(self, offset: int) -> None:
        """For an orderly stop."""
        if self._writing is not None:
            await asyncio.wait([self._writing])
        self._next_ms = 0
        self.note(offset)
        if self._writing is not None:
            await asyncio.wait([self._writing])

    def _write(self, offset: int) -> None:
        with suppress(NoSpace):  # the old mark stays, and is still true
            write_committed_offset(self._disk, PATH, offset)

    def _written(self, done: asyncio.Future[None]) -> None:
        self._writing = None
        if not done.cancelled() and (error := done.exception()) is not None:
            assert isinstance(error, Exception), error
            self._fail(error)
