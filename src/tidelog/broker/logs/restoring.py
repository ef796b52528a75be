"""Refused logs get their records back from the other replicas (ADR 0031).

A log that lacks records is not opened while nobody else leads its partition: what it has may be
the only copy of the newest records. But its broker may be elected, as the last known leader, and
then nobody could read or write for good. The lost records are old ones, which others have. They
are fetched, put in their place, and the log is opened. Replicas that do not answer or do not have
them are asked again and again; the finding `log-refused` stays until the log is open.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from tidelog.broker.logs.mending import (
    ASK_AGAIN_MS,
    PATCH_MAX_BYTES,
    fetch_as_consumer,
    others_of,
)
from tidelog.host import tasks
from tidelog.host.timers import pause
from tidelog.storage.directory_names import directory_of
from tidelog.storage.errors import CorruptFile, CorruptSegment, MissingRecords, StorageError
from tidelog.storage.mending import Fit
from tidelog.storage.prefix_restoring import PrefixRestoration, end_of_prefix
from tidelog.storage.restoring import Restoration

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.broker.replication.broker_connections import BrokerConnections
    from tidelog.broker.replication.replicas import Replicas
    from tidelog.core.types import PartitionId
    from tidelog.host.node_host import NodeHost
    from tidelog.storage.checkpoints import PartitionName
    from tidelog.storage.log_directory import LogDirectory

_LOGGER = logging.getLogger("tidelog.broker")


class Restoring:
    """Owner of the work on refused logs, one task for each. One per broker."""

    __slots__ = (
        "_ask_timeout_ms",
        "_host",
        "_lines",
        "_metadata",
        "_replicas",
        "_tasks",
        "_worker",
        "rounds",
    )

    def __init__(
        self,
        metadata: LocalMetadata,
        replicas: Replicas,
        lines: BrokerConnections,
        host: NodeHost,
        *,
        ask_timeout_ms: int,
    ) -> None:
        self._metadata = metadata
        self._replicas = replicas
        self._lines = lines
        self._host = host
        self._ask_timeout_ms = ask_timeout_ms
        self._worker = host.make_workers("restoring", 1)
        self._tasks: dict[PartitionId, asyncio.Task[None]] = {}
        self.rounds = 0
        """How often all other replicas of a log were asked in vain."""

    def begin(self, partition: PartitionId, name: PartitionName) -> None:
        """It was refused. Nothing happens if that is being worked on, or nobody can help."""
        directory = self._replicas.directories.holding(name)
        if partition in self._tasks or directory is None or name not in directory.refused:
            return
        if others_of(self._metadata, partition):
            self._tasks[partition] = tasks.begin(self._restore(partition, name, directory))

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        self._lines.close()
        self._worker.close(wait=False)

    async def _restore(
        self, partition: PartitionId, name: PartitionName, directory: LogDirectory
    ) -> None:
        try:
            while name in directory.refused:
                error = directory.refused[name]
                if not await self._ask_all(partition, name, directory, error):
                    self.rounds += 1
                    await pause(self._host.timers, ASK_AGAIN_MS)
        except StorageError as failure:
            self._replicas.directories.on_error(directory, failure)
        finally:
            self._tasks.pop(partition, None)

    async def _ask_all(
        self,
        partition: PartitionId,
        name: PartitionName,
        directory: LogDirectory,
        error: CorruptSegment,
    ) -> bool:
        """Whether there was any progress: at least a part of what is lost is back."""
        for broker_id in others_of(self._metadata, partition):
            try:
                found = restoration_of(directory, name, error)
            except CorruptFile:
                found = None  # without our epochs nobody knows what was there
            if found is None:
                return False
            if not await self._fetch(found, partition, broker_id):
                continue
            await self._worker.run(found.prepare)
            if directory.refused.get(name) is not error:
                return True  # another replica led meanwhile, or it is not wanted any more
            found.finish()
            _LOGGER.warning(
                "%s: offsets %d to %d put back as broker %d has them",
                directory_of(name),
                error.offset,
                found.next_offset - 1,
                broker_id,
            )
            if directory.open_again(name) is None:
                self._replicas.refused.clear(partition)
                self._replicas.problems.pop(partition, None)
                self._replicas.publish([partition])
            return True
        return False

    async def _fetch(
        self, found: Restoration | PrefixRestoration, partition: PartitionId, broker_id: int
    ) -> bool:
        """Whether this replica has something for the lost place."""
        while True:
            records = await fetch_as_consumer(
                self._lines,
                broker_id,
                partition,
                found.next_offset,
                timeout_ms=self._ask_timeout_ms,
            )
            if not records:
                return False
            fit = found.add(records)
            if fit is not Fit.MORE:
                return fit is Fit.WHOLE
            if found.size_bytes >= PATCH_MAX_BYTES and not await self._worker.run(found.make_room):
                return found.is_hole


def restoration_of(
    directory: LogDirectory, name: PartitionName, error: CorruptSegment
) -> Restoration | PrefixRestoration | None:
    """None if nobody can know what was lost: a compacted log of which too little is known."""
    gaps = directory.may_have_gaps(name)
    if not gaps or not isinstance(error, MissingRecords):
        return Restoration(directory.disk, error, gaps=gaps)
    clean_point = directory.may_be_cleaned_to(name)
    end = None if clean_point is None else end_of_prefix(directory.disk, error, clean_point)
    return None if end is None else PrefixRestoration(directory.disk, error, end)
