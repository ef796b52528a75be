"""Incremental fetch sessions (KIP-227): a fetcher sends its partitions once, then only changes.

A session remembers the partitions of one fetcher and where it is in each. Most of them are idle
most of the time, and an idle partition costs nothing: the session keeps a set of *active*
partitions, those that may have something to tell, and a request looks only at them. A partition
becomes active when the request mentions it or something about it moved (`Fetches.wake`), and stops
being so when it was found to have nothing to tell.

A fetch without a session is served from a session that nobody remembers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tidelog.core.errors import Error
from tidelog.core.replication.inputs import FollowerFetch
from tidelog.core.types import NO_EPOCH, NO_OFFSET, PartitionId
from tidelog.wire.protocol.schemas.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)

if TYPE_CHECKING:
    from tidelog.broker.fetch.fetches import ParkedFetch
    from tidelog.host.timers import Timer

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1
FIRST_VERSION_WITH_TOPIC_IDS = 13

EVICTABLE_AFTER_MS = 120_000
"""A session that nobody used for so long may go when its slot is wanted."""

FetchKey = tuple[bytes | str, int]
"""Topic id or, before version 13, its name; and the partition."""

Told = tuple[int, int, int]
"""High watermark, last stable offset and log start as the fetcher last heard them."""


class PartitionFetch:
    """Where a fetcher is in one partition, and what it was told about it."""

    __slots__ = (
        "asked",
        "fetch_offset",
        "index",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start_offset",
        "max_bytes",
        "told",
        "topic",
        "uncounted",
        "watched",
    )

    def __init__(self, topic: bytes | str, index: int) -> None:
        self.topic = topic
        self.index = index
        self.leader_epoch = NO_EPOCH
        self.fetch_offset = 0
        self.last_fetched_epoch = NO_EPOCH
        self.log_start_offset = NO_OFFSET
        self.max_bytes = 0
        self.asked: FollowerFetch | None = None
        """The position as a leader knows it; None if it was not asked yet."""
        self.told: Told | None = None
        self.uncounted = False
        """A follower asked before we knew that we lead: its acknowledgement is yet to be taken."""
        self.watched: PartitionId | None = None

    def __repr__(self) -> str:
        return f"PartitionFetch({self.topic!r}, {self.index}, {self.fetch_offset})"

    def move(self, wanted: FetchPartition) -> None:
        if wanted.current_leader_epoch != self.leader_epoch:
            self.told = None  # it may have ignored an answer that was about the epoch before
        self.leader_epoch = wanted.current_leader_epoch
        self.fetch_offset = wanted.fetch_offset
        self.last_fetched_epoch = wanted.last_fetched_epoch
        self.log_start_offset = wanted.log_start_offset
        self.max_bytes = wanted.partition_max_bytes
        self.asked = None


class FetchSession:
    """The partitions of one fetcher. `parked` is its fetch that waits, if one does."""

    __slots__ = (
        "active",
        "by_topic_id",
        "due_ms",
        "epoch",
        "id",
        "last_used_ms",
        "parked",
        "partitions",
        "permit",
        "privileged",
        "reviewed_ms",
        "timer",
    )

    def __init__(self, session_id: int, *, by_topic_id: bool, privileged: bool, now_ms: int):
        self.id = session_id
        self.by_topic_id = by_topic_id
        self.privileged = privileged
        self.epoch = INITIAL_EPOCH + 1
        self.partitions: dict[FetchKey, PartitionFetch] = {}
        self.active: dict[PartitionFetch, None] = {}
        self.parked: ParkedFetch | None = None
        self.timer: Timer | None = None
        """For the parked fetch or one before it: it looks, when it fires, which one is parked."""
        self.due_ms = 0
        """When it fires."""
        self.last_used_ms = now_ms
        self.reviewed_ms = now_ms
        self.permit: object = None
        """Whom it was allowed, and by which rules; only where there is an authorizer."""

    def __repr__(self) -> str:
        return f"FetchSession({self.id}, epoch={self.epoch}, {len(self.partitions)} partitions)"

    def take(self, topics: Sequence[FetchTopic]) -> None:
        """New partitions, and new positions in known ones. All of them have to be looked at."""
        by_topic_id = self.by_topic_id
        for wanted_topic in topics:
            topic = wanted_topic.topic_id if by_topic_id else wanted_topic.topic
            for wanted in wanted_topic.partitions:
                key = (topic, wanted.partition)
                fetch = self.partitions.get(key)
                if fetch is None:
                    fetch = self.partitions[key] = PartitionFetch(topic, wanted.partition)
                fetch.move(wanted)
                self.active[fetch] = None

    def forget(self, topics: Sequence[ForgottenTopic]) -> list[PartitionFetch]:
        """The partitions that left the session; unknown ones are no error."""
        forgotten: list[PartitionFetch] = []
        for gone in topics:
            topic = gone.topic_id if self.by_topic_id else gone.topic
            for index in gone.partitions:
                fetch = self.partitions.pop((topic, index), None)
                if fetch is not None:
                    self.active.pop(fetch, None)
                    forgotten.append(fetch)
        return forgotten

    def review(self, is_settled: Callable[[PartitionFetch], bool], now_ms: int) -> None:
        """Every partition has to be looked at, active or not, unless it is settled."""
        active = self.active
        for fetch in self.partitions.values():
            if fetch not in active and not is_settled(fetch):
                active[fetch] = None
        self.reviewed_ms = now_ms


class Opened(NamedTuple):
    """What a request fetches from. `full`: the answer names every partition of the session."""

    session: FetchSession
    full: bool
    forgotten: Sequence[PartitionFetch] = ()


class FetchSessions:
    """The sessions this broker remembers, at most `slots`; oldest use first.

    Followers go before consumers: for them a slot is taken from the consumer that has not used
    its own for the longest time, used or not. `on_closed` hears of every session that ends.
    """

    __slots__ = ("_consumers", "_draw", "_followers", "_slots", "on_closed")

    def __init__(
        self,
        slots: int,
        draw: Callable[[int], int],
        on_closed: Callable[[FetchSession], None],
    ) -> None:
        self._slots = slots
        self._draw = draw
        self.on_closed = on_closed
        self._consumers: dict[int, FetchSession] = {}
        self._followers: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._consumers) + len(self._followers)

    def ids(self) -> list[int]:
        return [*self._consumers, *self._followers]

    def find(self, session_id: int) -> FetchSession | None:
        return self._consumers.get(session_id) or self._followers.get(session_id)

    def open(
        self, request: FetchRequest, version: int, *, privileged: bool, now_ms: int
    ) -> Opened | Error:
        """The session that a request begins, continues or does without."""
        by_topic_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
        if request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
            return self._continue(request, by_topic_id=by_topic_id, now_ms=now_ms)
        if request.session_id != NO_SESSION:
            self.close(request.session_id)
        session_id = NO_SESSION
        if request.session_epoch == INITIAL_EPOCH and any(t.partitions for t in request.topics):
            session_id = self._free_id(privileged=privileged, now_ms=now_ms)
        session = FetchSession(
            session_id, by_topic_id=by_topic_id, privileged=privileged, now_ms=now_ms
        )
        if session_id != NO_SESSION:
            self._of_kind(privileged)[session_id] = session
        session.take(request.topics)
        return Opened(session, full=True)

    def close(self, session_id: int) -> None:
        session = self._consumers.pop(session_id, None) or self._followers.pop(session_id, None)
        if session is not None:
            self.on_closed(session)

    def _continue(self, request: FetchRequest, *, by_topic_id: bool, now_ms: int) -> Opened | Error:
        session = self.find(request.session_id)
        if session is None:
            return Error.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return Error.INVALID_FETCH_SESSION_EPOCH
        if session.by_topic_id != by_topic_id:
            return Error.FETCH_SESSION_TOPIC_ID_ERROR
        session.epoch = session.epoch + 1 if session.epoch < EPOCH_MAX else INITIAL_EPOCH + 1
        session.last_used_ms = now_ms
        kind = self._of_kind(session.privileged)
        kind[session.id] = kind.pop(session.id)  # to the young end
        session.take(request.topics)
        forgotten = session.forget(request.forgotten_topics_data)
        return Opened(session, full=False, forgotten=forgotten)

    def _free_id(self, *, privileged: bool, now_ms: int) -> int:
        if len(self) >= self._slots and not self._evict(privileged=privileged, now_ms=now_ms):
            return NO_SESSION
        while True:
            session_id = 1 + self._draw(EPOCH_MAX)
            if session_id not in self._consumers and session_id not in self._followers:
                return session_id

    def _evict(self, *, privileged: bool, now_ms: int) -> bool:
        kinds = (self._consumers, self._followers) if privileged else (self._consumers,)
        for kind in kinds:
            oldest = next(iter(kind.values()), None)
            if oldest is None:
                continue
            idle = now_ms - oldest.last_used_ms >= EVICTABLE_AFTER_MS
            if idle or (privileged and not oldest.privileged):
                self.close(oldest.id)
                return True
        return False

    def _of_kind(self, privileged: bool) -> dict[int, FetchSession]:
        return self._followers if privileged else self._consumers
