"""New logs, made beside the event loop.

A new log is a directory, the id of its topic and an empty segment, all of it synced. On a busy
disk some dozens of them take a second. They are made on threads, some at a time, and are hosted
when they are there; metadata may change meanwhile, so it is looked at again then.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

from tidelog.host import tasks
from tidelog.host.ports import Workers
from tidelog.storage.checkpoints import PartitionName
from tidelog.storage.errors import StorageError
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.new_logs import Made, NewLogs, make_all
from tidelog.storage.offset_checkpoints import write_all

AT_ONCE = 64
"""Logs in one round. Also what is given up if a topic is deleted meanwhile."""

Take = Callable[[int], NewLogs]
"""So many at most of the logs that are still to be made."""
OnMade = Callable[[Mapping[PartitionName, Made]], None]
Place = Callable[[NewLogs], Mapping[LogDirectory, NewLogs]]


class LogMaking:
    """One round at a time."""

    __slots__ = ("_makers", "_on_offline", "_place", "_running", "_stopped", "_waiter", "under_way")

    def __init__(
        self,
        place: Place,
        makers: Workers,
        waiter: Workers,
        on_offline: Callable[[Exception], None],
    ) -> None:
        """`place` tells which log goes where; `makers` make those of a round at the same time,
        and `waiter` is one thread that waits for them."""
        self._place = place
        self._makers = makers
        self._waiter = waiter
        self._on_offline = on_offline
        self._running: asyncio.Task[None] | None = None
        self._stopped = False
        self.under_way: NewLogs = {}
        """Names of the round, with the ids of their topics."""

    def begin(self, take: Take, on_made: OnMade) -> None:
        """Take some and make them, until there are no more; unless that is under way."""
        if self._running is None and not self._stopped:
            self._running = tasks.begin(self._make(take, on_made))

    async def stop(self) -> None:
        """What is under way is finished and left alone: the next start finds it."""
        self._stopped = True
        if self._running is not None:
            await asyncio.wait([self._running])
        self._waiter.close()

    async def _make(self, take: Take, on_made: OnMade) -> None:
        try:
            while not self._stopped and (wanted := take(AT_ONCE)):
                self.under_way = wanted
                made = await self._round(wanted)
                self.under_way = {}
                if not self._stopped:
                    on_made(made)
        except StorageError as error:
            self._on_offline(error)
        finally:
            self._running = None

    async def _round(self, wanted: NewLogs) -> Mapping[PartitionName, Made]:
        made: dict[PartitionName, Made] = {}
        for directory, new in self._place(wanted).items():
            orders = directory.orders_for(new)
            pending = directory.checkpoints.start_writing()
            await self._waiter.run(partial(write_all, pending))
            logs = await self._waiter.run(partial(make_all, orders, self._makers.map))
            if not self._stopped:
                made.update(directory.take_over_made(new, logs))
        return made
