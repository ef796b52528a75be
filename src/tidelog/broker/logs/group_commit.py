"""Group commit: one pass of syncs covers every append that came before it.

A pass runs on a thread, because a sync may take as long as the disk likes; the event loop goes
on appending meanwhile, and what it appends waits for the next pass. There is one pass at a time,
so a busy disk makes passes longer and fewer, not more.
"""

import asyncio
from collections.abc import Callable, Sequence

from tidelog.host import tasks
from tidelog.host.ports import Workers
from tidelog.storage.errors import StorageError
from tidelog.storage.group_commit import PendingPass
from tidelog.storage.log import Log
from tidelog.storage.log_directory import LogDirectory


class GroupCommit:
    """The passes over one log directory."""

    __slots__ = (
        "_all_logs",
        "_directory",
        "_on_durable",
        "_on_offline",
        "_owed",
        "_requested",
        "_running",
        "_started",
        "_stopped",
        "_worker",
        "passes",
        "seconds",
    )

    def __init__(
        self,
        directory: LogDirectory,
        on_durable: Callable[[Sequence[Log]], None],
        on_offline: Callable[[Exception], None],
        worker: Workers,
    ) -> None:
        """`worker` is one thread of its own: passes follow one another."""
        self._directory = directory
        self._on_durable = on_durable
        self._on_offline = on_offline
        self._worker = worker
        self._requested = False
        self._all_logs = False
        """Somebody waits for appends, or it is time for all of them."""
        self._owed = 0  # logs that were dirty at the last request and are in no pass yet
        self._running: asyncio.Future[None] | None = None
        self._stopped = False
        self._started = 0.0
        self.passes = 0
        self.seconds = 0.0
        """What all passes took together."""

    def request(self, *, rolled_only: bool = False) -> None:
        """Something was appended. The pass begins after this round of the loop, which may
        append more. `rolled_only`: a segment was rolled away; where written counts as held, only
        such logs are synced."""
        if not rolled_only:
            self._all_logs = True
        if not self._requested:
            self._requested = True
            if self._running is None:
                tasks.soon(self._begin)

    async def stop(self) -> None:
        """After the pass under way, none follows."""
        self._stopped = True
        while self._running is not None:
            await asyncio.wait([self._running])
        self._worker.close()

    def _begin(self) -> None:
        if self._stopped or self._running is not None:
            return
        if self._requested:
            self._requested = False
            self._owed = len(self._directory.dirty)
        try:
            pending = self._directory.start_sync(rolled_only=not self._all_logs)
        except StorageError as error:
            self._on_offline(error)
            return
        if pending is None:
            self._owed = 0
            self._all_logs = False
            return
        self._owed -= len(pending.parts)
        self._started = tasks.seconds()
        self._running = self._worker.run(pending.run)
        self._running.add_done_callback(lambda future: self._finish(pending, future))

    def _finish(self, pending: PendingPass, future: asyncio.Future[None]) -> None:
        self._running = None
        self.passes += 1
        self.seconds += tasks.seconds() - self._started
        error = future.exception()
        if error is not None and not isinstance(error, OSError):
            raise error
        try:
            moved = self._directory.finish_sync(pending, error)
        except StorageError as failure:
            self._on_offline(failure)
            return
        if moved:
            self._on_durable(moved)
        if self._requested or self._owed > 0:
            self._begin()
        else:
            self._all_logs = False
