"""A slow walk over everything that lies on the disks, to find damage before a reader does.

It reads one stretch after the other, on a thread and no faster than it may, checks every batch as a
read would, and begins again at the end. Suspected damage is read once more on the event loop, which
owns the log, before it is reported, because the log may have changed meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidelog.core.replication.epochs import EpochHistory
from tidelog.host import tasks
from tidelog.host.timers import pause
from tidelog.storage.errors import StorageError
from tidelog.storage.mending import opened_again
from tidelog.storage.serving import Expected, Served, served
from tidelog.wire.records.header import LENGTH_OVERHEAD

if TYPE_CHECKING:
    from tidelog.broker.logs.mending import Mending
    from tidelog.broker.replication.hosted import Hosted
    from tidelog.broker.replication.replicas import Replicas
    from tidelog.host.node_host import NodeHost
    from tidelog.storage.segment import Segment

STRETCH_BYTES = 256 * 1024
LEAST_COUNTED_BYTES = 64 * 1024
"""What a look costs beside its bytes: thousands of small logs must not make a busy loop."""
SEGMENTS_AT_ONCE = 100
BETWEEN_ROUNDS_MS = 600_000
LOOK_AGAIN_MS = 1_000
"""After a round without any log: a broker that has just started hosts none yet."""
_END = (1 << 63) - 1


class Stretch(NamedTuple):
    """A part of a segment, from the beginning of a batch on."""

    hosted: Hosted
    segment: Segment
    position: int
    next_offset: int


class Scrubbing:
    """One walk per broker. Its place is kept while the process lives."""

    __slots__ = (
        "_bytes_per_second",
        "_host",
        "_mending",
        "_replicas",
        "_running",
        "_worker",
        "rounds",
        "scrubbed_bytes",
    )

    def __init__(
        self, replicas: Replicas, mending: Mending, host: NodeHost, *, bytes_per_second: int
    ) -> None:
        self._replicas = replicas
        self._mending = mending
        self._host = host
        self._bytes_per_second = bytes_per_second
        self._worker = host.make_workers("scrub", 1)
        self._running: asyncio.Task[None] | None = None
        self.scrubbed_bytes = 0
        self.rounds = 0

    def start(self) -> None:
        if self._bytes_per_second > 0:
            self._running = tasks.begin(self._run())

    def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
        self._worker.close(wait=False)

    async def _run(self) -> None:
        while True:
            number = 0
            for number, segment in enumerate(self._segments(), 1):
                await self._scrub(*segment)
                if number % SEGMENTS_AT_ONCE == 0:
                    await pause(self._host.timers, 1)  # empty ones have not waited
            self.rounds += 1
            await pause(self._host.timers, BETWEEN_ROUNDS_MS if number else LOOK_AGAIN_MS)

    def _segments(self) -> Iterator[tuple[Hosted, Segment]]:
        """Of all logs, as they are when their turn comes. A random log is the first: a broker
        that restarts often must come to all of them."""
        hosted = self._replicas.hosted
        partitions = list(hosted)
        first = self._host.entropy.below(max(len(partitions), 1))
        for partition in (*partitions[first:], *partitions[:first]):
            one = hosted.get(partition)
            for segment in () if one is None else one.log.segments:
                if hosted.get(partition) is one and one is not None:
                    yield one, segment

    async def _scrub(self, hosted: Hosted, segment: Segment) -> None:
        """One segment, up to its end or to the first damage."""
        stretch = Stretch(hosted, segment, 0, segment.base_offset)
        while self._is_there(stretch) and stretch.position < segment.size:
            found = await self._look(stretch)
            if found is None:
                return
            if found.reason is not None or not found.size_bytes:
                self._confirm(stretch)
                return
            self.scrubbed_bytes += found.size_bytes
            stretch = stretch._replace(
                position=stretch.position + found.size_bytes, next_offset=found.next_offset
            )
            counted_bytes = max(found.size_bytes, LEAST_COUNTED_BYTES)
            delay_ms = max(1, counted_bytes * 1000 // self._bytes_per_second)
            await pause(self._host.timers, delay_ms)

    def _is_there(self, stretch: Stretch) -> bool:
        hosted = stretch.hosted
        return (
            self._replicas.hosted.get(hosted.partition) is hosted
            and stretch.segment in hosted.log.segments
            and hosted.partition not in self._mending.damages
        )

    async def _look(self, stretch: Stretch) -> Served | None:
        """What a stretch is worth; None if its file is gone."""
        hosted, segment, position, next_offset = stretch
        epochs = EpochHistory(hosted.log.epochs.entries)
        overlaps = _never if segment.gaps else None
        expected = Expected(position, next_offset, _END, epochs, overlaps)
        segment.kept.look(position, position + STRETCH_BYTES, segment.size)  # ADR 0029
        try:
            return await self._worker.run(partial(check, segment, segment.size, expected))
        except FileNotFoundError:
            return None
        except StorageError as error:
            self._replicas.directories.on_error(hosted.directory, error)
            return None

    def _confirm(self, stretch: Stretch) -> None:
        log = stretch.hosted.log
        if not self._is_there(stretch):
            return
        offset = max(stretch.next_offset, log.log_start_offset)
        try:
            log.read(offset, log.log_end_offset, 1)
        except StorageError as error:
            self._mending.found(stretch.hosted, error)


def check(segment: Segment, size_bytes: int, expected: Expected) -> Served:
    """On a thread, with a file of its own: some whole batches, at least one if its length can be
    believed."""
    position = expected.position
    left = size_bytes - position
    file = opened_again(segment)
    try:
        data = file.read(position, min(STRETCH_BYTES, left))
        first_bytes = int.from_bytes(data[8:12], "big") + LENGTH_OVERHEAD
        if len(data) < first_bytes <= left:
            data = file.read(position, first_bytes)
    finally:
        file.close()
    return served(data, expected)


def _never(_position: int, _header: object) -> bool:
    return False
