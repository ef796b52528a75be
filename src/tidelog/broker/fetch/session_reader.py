"""Reads what the partitions of a fetch session have for their fetcher, when `fetches` asks for it.

A look asks the state machine of each partition what may be read, and reads it. A fetch of a
follower is counted by the first look; looking again does not count (`serve_parked`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.fetch import fetch_answer
from tidelog.broker.fetch.fetch_answer import FetchScope, Look
from tidelog.broker.fetch.fetch_sessions import NO_SESSION, FetchSession, PartitionFetch
from tidelog.broker.fetch.waiting_lists import WaitingLists
from tidelog.core.errors import Error
from tidelog.core.replication.inputs import (
    NO_REPLICA,
    ConsumerFetch,
    FetchDecision,
    FollowerFetch,
)
from tidelog.core.replication.throttle import should_throttle_leader
from tidelog.core.types import PartitionId
from tidelog.rpc import Call
from tidelog.storage.errors import StorageError

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.broker.logs.mending import Mending
    from tidelog.broker.replication.hosted import Hosted
    from tidelog.broker.replication.replicas import Replicas
    from tidelog.broker.replication.throttles import Throttle
    from tidelog.host.ports import Clock, FileRange
    from tidelog.storage.log import Log

_BEHIND = (
    Error.UNKNOWN_LEADER_EPOCH,
    Error.UNKNOWN_TOPIC_ID,
    Error.UNKNOWN_TOPIC_OR_PARTITION,
)
"""What we say to a follower that has heard of a leadership before we have."""


class Found(NamedTuple):
    """What a look at a session has found."""

    looks: list[Look]
    size_bytes: int
    decided: bool
    """Something has to be said at once: an error, a diverging epoch, a preferred replica."""
    behind: bool
    """A follower knows metadata that we do not have yet."""
    unread: bool
    """There are records, which were not to be read."""


class SessionReader:
    """Looks into replicas for fetches. One per broker."""

    __slots__ = (
        "_mending",
        "_metadata",
        "_now_ms",
        "_replicas",
        "_throttle",
        "shared",
        "waiting",
    )

    def __init__(
        self,
        metadata: LocalMetadata,
        replicas: Replicas,
        mending: Mending,
        throttle: Throttle,
        clock: Clock,
    ) -> None:
        self._metadata = metadata
        self._replicas = replicas
        self.waiting = WaitingLists()
        self._mending = mending
        self._throttle = throttle
        self._now_ms = clock.monotonic_ms
        self.shared: dict[tuple[Log, int, int, int], memoryview | FileRange] | None = None
        """What was read in this turn, for the other followers that want the same."""

    def look(
        self,
        session: FetchSession,
        call: Call,
        scope: FetchScope,
        *,
        full: bool,
        counted_ms: int | None,
        reads: bool = True,
    ) -> Found:
        """Partitions in their order, within the bytes allowed now: a fetch may have waited while
        others took what there was. Those without news rest."""
        looks: list[Look] = []
        allowance_bytes = call.connection.allowance_bytes if reads else 0
        max_bytes = min(scope.max_bytes, allowance_bytes)
        left, decided, behind, unread = max_bytes, False, False, False
        for fetch in list(session.partitions.values() if full else session.active):
            hosted = self._resolve(session, fetch)
            if isinstance(hosted, Error):
                look = Look(fetch, hosted)
            else:
                look = self._read(
                    hosted,
                    fetch,
                    scope,
                    self._decide(hosted, fetch, scope, counted_ms),
                    max_bytes=min(left, fetch.max_bytes),
                    is_first=allowance_bytes > 0 and left == max_bytes,
                )
                left -= len(look.records)
            fetch.uncounted = False
            if look.is_decided:
                waits = fetch.uncounted = scope.is_follower and look.error in _BEHIND
                behind, decided = behind or waits, decided or not waits
            has_news = look.has_news
            if (session.id == NO_SESSION or not has_news) and look.is_quiet:
                session.active.pop(fetch, None)
            if full or has_news:
                looks.append(look)
            decision = look.decision
            if not reads and decision is not None and decision.read_from < decision.read_to:
                unread = True
        return Found(looks, max_bytes - left, decided, behind, unread)

    def is_settled(self, scope: FetchScope, now_ms: int, fetch: PartitionFetch) -> bool:
        """A look at it would find that the follower has everything and was told everything. That
        it still fetches is counted here."""
        if not scope.is_follower or fetch.watched is None or fetch.uncounted:
            return False
        hosted = self._replicas.hosted.get(fetch.watched)
        leader = hosted.leader if hosted is not None else None
        if leader is None:
            return False
        state = leader.state
        told = state.high_watermark, state.last_stable_offset, state.log.log_start_offset
        return fetch.told == told and leader.count_quiet_fetch(
            _follower_fetch(scope, fetch), now_ms
        )

    def _resolve(self, session: FetchSession, fetch: PartitionFetch) -> Hosted | Error:
        topic = fetch.topic
        if fetch.watched is not None and isinstance(topic, bytes):
            hosted = self._replicas.hosted.get(fetch.watched)
            if hosted is not None:
                return hosted
        image = self._metadata.image
        topic_id = topic if isinstance(topic, bytes) else image.topic_ids.get(topic)
        if topic_id is None:
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        partition = PartitionId(topic_id, fetch.index)
        if session.id != NO_SESSION and fetch.watched != partition:
            self.waiting.watch(session, fetch, partition)
        hosted = self._replicas.hosted.get(partition)
        if hosted is not None:
            return hosted
        if topic_id not in image.topics:
            return Error.UNKNOWN_TOPIC_ID
        state = image.partition(partition)
        if state is None:
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        if state.leader_epoch < fetch.leader_epoch:
            return Error.UNKNOWN_LEADER_EPOCH
        unreadable = partition in self._replicas.problems
        return Error.KAFKA_STORAGE_ERROR if unreadable else Error.NOT_LEADER_OR_FOLLOWER

    def _decide(
        self, hosted: Hosted, fetch: PartitionFetch, scope: FetchScope, counted_ms: int | None
    ) -> FetchDecision | None:
        """What the state machine says; None if it is not the leader a follower looks for. A fetch
        is counted when it comes, and not when it is looked at again."""
        if not scope.is_follower:
            return hosted.replica.consumer_fetch(
                ConsumerFetch(
                    fetch.fetch_offset,
                    fetch.leader_epoch,
                    fetch.last_fetched_epoch,
                    scope.read_committed,
                    scope.rack,
                    scope.understands_offset_not_available,
                    scope.leader_only,
                ),
                self._now_ms(),
            )
        leader = hosted.leader
        if leader is None:
            return None
        asked = fetch.asked
        if asked is None or asked[:2] != (scope.replica_id, scope.replica_epoch):
            asked = fetch.asked = _follower_fetch(scope, fetch)
        if counted_ms is None and not fetch.uncounted:
            return leader.serve_parked(asked)
        now_ms = self._now_ms() if counted_ms is None else counted_ms
        decision, effects = leader.on_follower_fetch(asked, now_ms)
        if effects:
            self._replicas.perform(hosted, effects)
        return decision

    def _read(
        self,
        hosted: Hosted,
        fetch: PartitionFetch,
        scope: FetchScope,
        decision: FetchDecision | None,
        *,
        max_bytes: int,
        is_first: bool,
    ) -> Look:
        """The records of a decision: whole batches, above the limit only the first of all."""
        if decision is None:
            behind = hosted.replica.leader_epoch < fetch.leader_epoch
            error = Error.UNKNOWN_LEADER_EPOCH if behind else Error.NOT_LEADER_OR_FOLLOWER
            return Look(fetch, error)
        leader = hosted.leader if scope.is_follower else None
        in_sync = leader is None or scope.replica_id in leader.isr
        look = Look(fetch, decision.error, decision, in_sync=in_sync)
        if (
            decision.read_from >= decision.read_to
            or decision.preferred_replica != NO_REPLICA
            or (max_bytes <= 0 and not is_first)
            or (scope.is_follower and self._is_throttled(hosted, in_sync=in_sync))
        ):
            return look
        mending = self._mending
        if mending.damages and mending.covers(hosted.partition, decision.read_from):
            return Look(fetch, Error.KAFKA_STORAGE_ERROR)
        try:
            run = self._run(hosted.log, decision, max(max_bytes, 0))
            if not len(run) or (len(run) > max_bytes and not is_first):
                return look
            look.records = run
            if scope.read_committed and not scope.is_follower:
                look.aborted = fetch_answer.aborted_transactions(hosted.log, decision, run)
        except StorageError as error:
            self._replicas.problems[hosted.partition] = str(error)
            self._mending.found(hosted, error)
            return Look(fetch, error.kafka_error)
        if scope.is_follower and self._is_listed(hosted):
            self._throttle.record(len(look.records))
        return look

    def _run(self, log: Log, decision: FetchDecision, max_bytes: int) -> memoryview | FileRange:
        """Followers mostly stand at the same offset, and one append wakes them all."""
        shared = self.shared
        if shared is None:
            return log.read_to_send(decision.read_from, decision.read_to, max_bytes)
        key = log, decision.read_from, decision.read_to, max_bytes
        run = shared.get(key)
        if run is None:
            run = shared[key] = log.read_to_send(decision.read_from, decision.read_to, max_bytes)
        return run

    def _is_listed(self, hosted: Hosted) -> bool:
        listed = hosted.topic_settings.leader_throttled
        if not listed.listed and not listed.all_replicas:  # as good as always
            return False
        return listed.includes(hosted.index, self._metadata.own_id)

    def _is_throttled(self, hosted: Hosted, *, in_sync: bool) -> bool:
        """KIP-73: slow down who catches up, never who is in sync."""
        listed = self._is_listed(hosted)
        return listed and should_throttle_leader(
            listed=listed, over_quota=self._throttle.over_quota(), in_sync=in_sync
        )


def _follower_fetch(scope: FetchScope, fetch: PartitionFetch) -> FollowerFetch:
    return FollowerFetch(
        scope.replica_id,
        scope.replica_epoch,
        fetch.leader_epoch,
        fetch.fetch_offset,
        fetch.last_fetched_epoch,
        fetch.log_start_offset,
    )
