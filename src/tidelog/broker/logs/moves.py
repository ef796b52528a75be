"""Logs that move from one log directory of this broker to another (KIP-113).

The log in the new directory is filled like that of a follower, from the one in service, some
batches in a turn of the event loop, while that one is written to. When it has caught up, it takes
the place of the other in one step: nobody outside notices, no request fails. If the process ends
before that, nothing has moved, and the move has to be requested again.

One log at a time. `replica.alter.log.dirs.io.max.bytes.per.second` slows it down.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from tidelog.broker.answers.effective_config import effective_broker
from tidelog.host import tasks
from tidelog.host.timers import pause
from tidelog.storage.directory_names import directory_of
from tidelog.storage.errors import DirectoryOffline, StorageError

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.broker.replication.hosted import Hosted
    from tidelog.broker.replication.replicas import Replicas
    from tidelog.config.node_config import NodeConfig
    from tidelog.core.types import PartitionId
    from tidelog.host.node_host import NodeHost
    from tidelog.host.ports import Workers
    from tidelog.storage.log import Log
    from tidelog.storage.log_directory import LogDirectory

SLICE_BYTES = 1024 * 1024
"""Read and written in one turn of the event loop."""
UNSYNCED_BYTES_MAX = 8 * SLICE_BYTES
"""A segment is synced when it is full: it must not have much to do then."""
CHANGE_OVER_BYTES_MAX = 4 * SLICE_BYTES
"""What may have to be synced when a log changes over, while the event loop waits."""
TRY_AGAIN_MS = 30_000
RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
FINDING = "log-move-fails"

_LOGGER = logging.getLogger("tidelog.broker")


class Move:
    """One log on its way. `future` is None until its turn comes."""

    __slots__ = ("destination", "future", "hosted", "starts_over", "unsynced_bytes")

    def __init__(self, hosted: Hosted, destination: LogDirectory) -> None:
        self.hosted = hosted
        self.destination = destination
        self.future: Log | None = None
        self.starts_over = False
        """Records that were copied are gone from the log in service, or may be."""
        self.unsynced_bytes = 0


class Moves:
    """Owner of all moves."""

    __slots__ = ("_config", "_host", "_metadata", "_replicas", "_syncer", "_task", "under_way")

    def __init__(
        self, metadata: LocalMetadata, replicas: Replicas, config: NodeConfig, host: NodeHost
    ) -> None:
        self._metadata = metadata
        self._replicas = replicas
        self._config = config
        self._host = host
        self._task: asyncio.Task[None] | None = None
        self._syncer: Workers | None = None
        self.under_way: dict[PartitionId, Move] = {}
        """In the order they were asked for. The first one is being copied."""

    def begin(self, hosted: Hosted, destination: LogDirectory) -> None:
        """Another destination than before replaces it; the present place ends the move."""
        move = self.under_way.get(hosted.partition)
        if move is not None and move.destination is not destination:
            self.forget(hosted)
            move = None
        if move is not None or hosted.directory is destination:
            return
        self.under_way[hosted.partition] = Move(hosted, destination)
        if self._task is None:
            self._task = tasks.begin(self._run())

    def forget(self, hosted: Hosted) -> None:
        """It shall not move any more, or is not here any more."""
        move = self.under_way.pop(hosted.partition, None)
        if move is not None:
            self._drop_future(move)
            self._host.findings.clear(FINDING, directory_of(hosted.name))

    def start_over(self, hosted: Hosted) -> None:
        """The log in service was cut."""
        move = self.under_way.get(hosted.partition)
        if move is not None:
            move.starts_over = True

    async def stop(self) -> None:
        """What is not finished is given up."""
        for move in list(self.under_way.values()):
            self.forget(move.hosted)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._syncer is not None:
            self._syncer.close()

    async def _run(self) -> None:
        try:
            while self.under_way:
                move = next(iter(self.under_way.values()))
                try:
                    await self._perform(move)
                except DirectoryOffline as error:
                    self._replicas.directories.on_error(move.destination, error)
                    return
                except StorageError as error:
                    await self._postpone(move, error)
                await tasks.pause(0)  # a change over is enough for one turn of the loop
        finally:
            self._task = None

    def _is_wanted(self, move: Move) -> bool:
        return self.under_way.get(move.hosted.partition) is move

    async def _perform(self, move: Move) -> None:
        """Copy until nothing is missing, then change over in the same turn. That syncs what is
        left: few bytes, and no files that rolled before the last sync beside the loop."""
        log = move.hosted.log
        was_synced = False
        while self._is_wanted(move):
            future = self._future_of(move)
            copied = copy_slice(log, future)
            move.unsynced_bytes += copied
            is_whole = future.log_end_offset == log.log_end_offset
            few_files = was_synced or not future.has_unsynced_files
            if is_whole and few_files and move.unsynced_bytes <= CHANGE_OVER_BYTES_MAX:
                self._change_over(move, future)
                return
            await self._pause(copied)
            was_synced = is_whole or move.unsynced_bytes >= UNSYNCED_BYTES_MAX
            if was_synced:
                await self._sync(move, future)

    def _future_of(self, move: Move) -> Log:
        """A new one if there is none, or if it has what the log in service has not."""
        log = move.hosted.log
        if move.future is not None and (
            move.starts_over or move.future.log_end_offset < log.log_start_offset
        ):
            self._drop_future(move)
        if move.future is None:
            topic_id = move.hosted.partition.topic_id
            future = move.destination.make_future(move.hosted.name, topic_id)
            move.future, move.starts_over, move.unsynced_bytes = future, False, 0
            if log.may_have_gaps:
                future.allow_gaps()
            if log.log_start_offset > 0:
                future.truncate_fully_and_start_at(log.log_start_offset)
        return move.future

    def _drop_future(self, move: Move) -> None:
        future, move.future = move.future, None
        if future is not None and move.destination.online:
            move.destination.drop_future(future)

    async def _sync(self, move: Move, future: Log) -> None:
        """On a thread. What is written meanwhile waits for the next time."""
        if move.future is not future:
            return
        pending = future.start_sync()
        if pending is None:
            return
        if self._syncer is None:
            self._syncer = self._host.make_workers("moves", 1)
        failure: OSError | None = None
        try:
            await self._syncer.run(pending.run)
        except OSError as error:
            failure = error
        if move.future is future:
            move.unsynced_bytes = 0
            future.finish_sync(pending, failure)

    def _change_over(self, move: Move, future: Log) -> None:
        hosted = move.hosted
        if hosted.log.log_start_offset > future.log_start_offset:
            future.raise_log_start(hosted.log.log_start_offset)
        self._replicas.move_to(hosted, move.destination, future)
        move.future = None  # it is in service from here on
        del self.under_way[hosted.partition]
        self._host.findings.clear(FINDING, directory_of(hosted.name))
        _LOGGER.info("%s is in another log directory now", directory_of(hosted.name))

    async def _postpone(self, move: Move, error: StorageError) -> None:
        """Others come first; this one is tried again, as long as it is wanted."""
        self._drop_future(move)
        name = directory_of(move.hosted.name)
        text = f"the log cannot move to another log directory: {error}"
        self._host.findings.report(
            FINDING, name, text, advice="make room there, or ask for its present directory again"
        )
        if self._is_wanted(move):
            self.under_way[move.hosted.partition] = self.under_way.pop(move.hosted.partition)
        await pause(self._host.timers, TRY_AGAIN_MS // max(len(self.under_way), 1))

    async def _pause(self, copied_bytes: int) -> None:
        text = effective_broker(self._metadata.image, self._config, RATE)
        assert text is not None, "it has a default"
        await pause(self._host.timers, copied_bytes * 1000 // max(int(text), 1))


def copy_slice(log: Log, future: Log) -> int:
    """The next batches of a log, if it has more. How many bytes that were."""
    if future.log_end_offset == log.log_end_offset:
        return 0
    runs = log.read(future.log_end_offset, log.log_end_offset, SLICE_BYTES)
    assert runs, f"{log} has nothing at {future.log_end_offset}"
    future.append_as_follower(runs)
    return sum(len(run) for run in runs)
