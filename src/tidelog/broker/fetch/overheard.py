"""Requests of followers and our answers, kept while somebody watches a partition.

A client that asks for a replica over HTTP (`/partition`) watches it for some seconds. While nobody
watches, a fetch costs one look at an empty table. Only what is new is kept: a follower that asks
for the same offset again, or an answer without records and with the same high watermark, is not
kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING

from tidelog.core.types import NO_EPOCH, NO_OFFSET, PartitionId
from tidelog.host.ports import Buffer, Clock, FileRange
from tidelog.observe.views import OverheardMessage
from tidelog.wire.records import InvalidBatch, iter_batches

if TYPE_CHECKING:
    from tidelog.broker.fetch.fetch_answer import Look
    from tidelog.broker.fetch.fetch_sessions import FetchKey, FetchSession

WATCHED_MS = 5_000
"""After the last look. A console looks ten times a second."""
MOST_WATCHED = 16
"""Partitions; the one that was looked at longest ago is forgotten."""
KEPT = 32
READ_MAX_BYTES = 65_536
"""Where the records of a larger answer end is not told: nobody would read it that quickly."""


class Watched:
    """One partition that somebody watches."""

    __slots__ = ("asked", "messages", "until_ms")

    def __init__(self) -> None:
        self.until_ms = 0
        self.asked: dict[int, tuple[int, int]] = {}
        """By follower: the offset and the epoch that it named last."""
        self.messages: deque[OverheardMessage] = deque(maxlen=KEPT)


class Overheard:
    """Owner of the watched partitions of a broker."""

    __slots__ = ("_clock", "_numbers", "partitions")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._numbers = count(1)
        self.partitions: dict[FetchKey, Watched] = {}
        """Empty while nobody watches: callers look before they call."""

    def watch(self, partition: PartitionId) -> Sequence[OverheardMessage]:
        """What was overheard of it, and go on for a while."""
        self._forget()
        watched = self.partitions.pop(partition, None) or Watched()
        self.partitions[partition] = watched  # last, as it was looked at last
        if len(self.partitions) > MOST_WATCHED:
            del self.partitions[next(iter(self.partitions))]
        watched.until_ms = self._clock.monotonic_ms() + WATCHED_MS
        return tuple(watched.messages)

    def note_fetch(self, replica_id: int, session: FetchSession, looks: Sequence[Look]) -> None:
        """A follower's fetch has come. One that was refused or diverges is told by other means."""
        self._forget()
        refused = {(look.fetch.topic, look.fetch.index) for look in looks if look.is_decided}
        for partition, watched in self.partitions.items():
            fetch = session.partitions.get(partition)
            if fetch is None or partition in refused:
                continue
            asked = fetch.fetch_offset, fetch.last_fetched_epoch
            if watched.asked.get(replica_id) != asked:
                watched.asked[replica_id] = asked
                self._add(watched, replica_id, asked[0], epoch=asked[1])

    def note_answer(self, replica_id: int, looks: Sequence[Look]) -> None:
        """Before the answer counts as told."""
        for look in looks:
            fetch = look.fetch
            watched = self.partitions.get((fetch.topic, fetch.index))
            if watched is None or look.is_decided:
                continue
            high_watermark = look.state[0]
            if len(look.records) or fetch.told is None or fetch.told[0] != high_watermark:
                first = fetch.fetch_offset
                end = _end_of(look.records) if len(look.records) else first
                self._add(watched, replica_id, first, end=end, high_watermark=high_watermark)

    def _add(
        self,
        watched: Watched,
        replica_id: int,
        offset: int,
        *,
        epoch: int = NO_EPOCH,
        end: int = NO_OFFSET,
        high_watermark: int | None = None,
    ) -> None:
        told = next(self._numbers), self._clock.wall_ms(), replica_id, offset
        watched.messages.append(OverheardMessage(*told, epoch, end, high_watermark))

    def _forget(self) -> None:
        now_ms = self._clock.monotonic_ms()
        over = [key for key, watched in self.partitions.items() if watched.until_ms < now_ms]
        for key in over:
            del self.partitions[key]


def _end_of(records: Buffer | FileRange) -> int:
    """The offset after them; -1 if they are too many to look, or cannot be read."""
    if len(records) > READ_MAX_BYTES:
        return NO_OFFSET
    try:
        content = records if isinstance(records, Buffer) else records.read()
        return max((header.next_offset for _, header in iter_batches(content)), default=NO_OFFSET)
    except (OSError, InvalidBatch):
        return NO_OFFSET  # the follower will find out; nobody else has to
