"""Every fetch on this broker: looked at, answered at once or parked (replication.md §6, §8.2, §9).

A look asks the state machine of each partition what may be read, and reads it. A fetch that finds
too little is parked: its session stands in the waiting lists of its partitions, a partition that
moves makes the session active and the fetch is looked at again, at most once per turn of the event
loop however many partitions moved (`gathering`). A parked fetch of a follower was counted when it
arrived; looking again does not count (`serve_parked`).

Partitions of a session that did not move are not looked at (KIP-227), except every now and then:
the leader has to see that a caught-up follower still fetches, and things that nobody wakes us for
have to be told some time. `REVIEWS_PER_LAG_TIME` bounds both.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.fetch import fetch_answer
from tidelog.broker.fetch.fetch_answer import FetchScope, Look
from tidelog.broker.fetch.fetch_sessions import (
    NO_SESSION,
    FetchSession,
    FetchSessions,
    Opened,
    PartitionFetch,
)
from tidelog.broker.fetch.gathering import Gathering
from tidelog.broker.replication.throttles import LEADER_RATE, Throttle
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
from tidelog.wire.protocol.schemas.fetch_request import FetchRequest

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker
    from tidelog.broker.replication.hosted import Hosted
    from tidelog.host.ports import FileRange
    from tidelog.storage.log import Log

REVIEWS_PER_LAG_TIME = 4
"""How often a session looks at all its partitions within `replica.lag.time.max.ms`: a follower
that fetches is then never seen to be late by more than a quarter of what is allowed."""
REVIEW_MAX_MS = 5_000

LOOK_AGAIN_MS = 10
"""A fetch that wants many bytes does not read what there is again with every append."""

_BEHIND = (
    Error.UNKNOWN_LEADER_EPOCH,
    Error.UNKNOWN_TOPIC_ID,
    Error.UNKNOWN_TOPIC_OR_PARTITION,
)
"""What we say to a follower that has heard of a leadership before we have."""


class ParkedFetch:
    """A fetch that waits for its partitions to move, or for the end of its time."""

    __slots__ = ("call", "due", "end_ms", "full", "looked_ms", "scope", "session")

    def __init__(self, call: Call, scope: FetchScope, opened: Opened, now_ms: int) -> None:
        self.call = call
        self.scope = scope
        self.session = opened.session
        self.full = opened.full
        self.end_ms = now_ms + scope.max_wait_ms
        self.looked_ms = now_ms
        self.due = False


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


class Reads:
    """Fetches under way on this broker. One per broker."""

    __slots__ = (
        "_again",
        "_answer_max_bytes",
        "_broker",
        "_gathering",
        "_parked",
        "_review_ms",
        "_shared",
        "_throttle",
        "_watchers",
        "sessions",
    )

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        settings = broker.config.settings
        self.sessions = FetchSessions(
            settings.whole("max.incremental.fetch.session.cache.slots"),
            broker.host.entropy.below,
            self._on_session_closed,
        )
        self._answer_max_bytes = settings.whole("fetch.max.bytes")
        lag_ms = settings.whole("replica.lag.time.max.ms")
        self._review_ms = min(lag_ms // REVIEWS_PER_LAG_TIME, REVIEW_MAX_MS)
        self._throttle = Throttle(broker, LEADER_RATE)
        self._watchers: dict[PartitionId, dict[PartitionFetch, FetchSession]] = {}
        self._again: list[ParkedFetch] = []
        self._gathering = Gathering()
        self._shared: dict[tuple[Log, int, int, int], memoryview | FileRange] | None = None
        """What was read in this turn, for the other followers that want the same."""
        self._parked = 0

    @property
    def parked_count(self) -> int:
        """Fetches that wait now."""
        return self._parked

    @property
    def watched_count(self) -> int:
        """Partitions with a waiting list."""
        return len(self._watchers)

    # -- a fetch arrives

    def fetch(self, call: Call, request: FetchRequest) -> None:
        """Answer, now or within the time the fetcher grants."""
        now = self._broker.now_ms()
        scope = fetch_answer.scope_of(call, request, self._answer_max_bytes)
        opened = self.sessions.open(request, call.version, privileged=scope.is_follower, now_ms=now)
        if isinstance(opened, Error):
            call.answer(fetch_answer.refusal(opened))
            return
        session = opened.session
        for forgotten in opened.forgotten:
            self._unwatch(forgotten)
        if session.parked is not None:
            self._make_way(session.parked)
        if not opened.full and not session.partitions:
            self.sessions.close(session.id)
            session.id = NO_SESSION
        elif now - session.reviewed_ms >= self._review_ms:
            session.review(partial(self._is_settled, scope, now), now)
        reads = not self._reads_later(scope, opened)
        found = self._look(session, call, scope, full=opened.full, counted_ms=now, reads=reads)
        if self._is_enough(found, scope, opened):
            self._answer(call, scope, opened, found)
            return
        parked = ParkedFetch(call, scope, opened, now)
        self._park(parked)
        if found.unread:
            self._look_soon(parked)
        if found.behind:
            self._await_metadata(parked)

    def _reads_later(self, scope: FetchScope, opened: Opened) -> bool:
        """What a follower has said counts at once; what it gets is read when more came together."""
        return (
            scope.is_follower
            and not opened.full
            and scope.min_bytes == 1
            and scope.max_wait_ms > 0
            and self._gathering.is_shared
        )

    def _is_enough(self, found: Found, scope: FetchScope, opened: Opened) -> bool:
        session = opened.session
        return (
            found.decided
            or found.size_bytes >= scope.min_bytes
            or scope.max_wait_ms <= 0
            or not session.partitions
            # A follower that has said everything once may add to it as soon as it is answered.
            or (opened.full and scope.is_follower and session.id != NO_SESSION and not found.behind)
        )

    def _answer(self, call: Call, scope: FetchScope, opened: Opened, found: Found) -> None:
        session, traffic = opened.session, self._broker.traffic
        if scope.is_follower:
            traffic.replication_bytes_out += found.size_bytes
        else:
            traffic.bytes_out += found.size_bytes
        call.answer(fetch_answer.response(self._broker.image, session, scope, found.looks))
        for look in found.looks:
            # After anything but a sound answer the next sound one is told, whatever it says.
            look.fetch.told = None if look.is_decided else look.state
            session.active.pop(look.fetch, None)
            if not look.is_quiet:
                session.active[look.fetch] = None  # behind those that were not served yet

    def _is_settled(self, scope: FetchScope, now_ms: int, fetch: PartitionFetch) -> bool:
        """A look at it would find that the follower has everything and was told everything. That
        it still fetches is counted here."""
        if not scope.is_follower or fetch.watched is None or fetch.uncounted:
            return False
        hosted = self._broker.replicas.hosted.get(fetch.watched)
        leader = hosted.leader if hosted is not None else None
        if leader is None:
            return False
        state = leader.state
        told = state.high_watermark, state.last_stable_offset, state.log.log_start_offset
        return fetch.told == told and leader.count_quiet_fetch(
            _follower_fetch(scope, fetch), now_ms
        )

    # -- looking

    def _look(
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

    def _resolve(self, session: FetchSession, fetch: PartitionFetch) -> Hosted | Error:
        topic = fetch.topic
        if fetch.watched is not None and isinstance(topic, bytes):
            hosted = self._broker.replicas.hosted.get(fetch.watched)
            if hosted is not None:
                return hosted
        image = self._broker.image
        topic_id = topic if isinstance(topic, bytes) else image.topic_ids.get(topic)
        if topic_id is None:
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        partition = PartitionId(topic_id, fetch.index)
        if session.id != NO_SESSION and fetch.watched != partition:
            self._watch(session, fetch, partition)
        hosted = self._broker.replicas.hosted.get(partition)
        if hosted is not None:
            return hosted
        if topic_id not in image.topics:
            return Error.UNKNOWN_TOPIC_ID
        state = image.partition(partition)
        if state is None:
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        if state.leader_epoch < fetch.leader_epoch:
            return Error.UNKNOWN_LEADER_EPOCH
        unreadable = partition in self._broker.replicas.problems
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
                self._broker.now_ms(),
            )
        leader = hosted.leader
        if leader is None:
            return None
        asked = fetch.asked
        if asked is None or asked[:2] != (scope.replica_id, scope.replica_epoch):
            asked = fetch.asked = _follower_fetch(scope, fetch)
        if counted_ms is None and not fetch.uncounted:
            return leader.serve_parked(asked)
        now_ms = self._broker.now_ms() if counted_ms is None else counted_ms
        decision, effects = leader.on_follower_fetch(asked, now_ms)
        if effects:
            self._broker.replicas.perform(hosted, effects)
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
        mending = self._broker.mending
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
            self._broker.replicas.problems[hosted.partition] = str(error)
            self._broker.mending.found(hosted, error)
            return Look(fetch, error.kafka_error)
        if scope.is_follower and self._is_listed(hosted):
            self._throttle.record(len(look.records))
        return look

    def _run(self, log: Log, decision: FetchDecision, max_bytes: int) -> memoryview | FileRange:
        """Followers mostly stand at the same offset, and one append wakes them all."""
        shared = self._shared
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
        return listed.includes(hosted.index, self._broker.id)

    def _is_throttled(self, hosted: Hosted, *, in_sync: bool) -> bool:
        """KIP-73: slow down who catches up, never who is in sync."""
        listed = self._is_listed(hosted)
        return listed and should_throttle_leader(
            listed=listed, over_quota=self._throttle.over_quota(), in_sync=in_sync
        )

    # -- waiting

    def _park(self, parked: ParkedFetch) -> None:
        session = parked.session
        session.parked = parked
        self._parked += 1
        if session.timer is None or parked.end_ms < session.due_ms:
            self._plan_end(session, parked.end_ms)
        if session.id == NO_SESSION:
            self._watch_until_answered(session)

    def _plan_end(self, session: FetchSession, due_ms: int) -> None:
        """One timer serves many fetches of a session, as most are answered before their end."""
        if session.timer is not None:
            session.timer.cancel()
        session.due_ms = due_ms
        session.timer = self._broker.host.timers.add(due_ms, partial(self._on_due, session))

    def _on_due(self, session: FetchSession) -> None:
        session.timer = None
        parked = session.parked
        if parked is None:
            return
        if parked.end_ms <= session.due_ms:
            self._finish(parked)
        else:
            self._plan_end(session, parked.end_ms)

    def _watch_until_answered(self, session: FetchSession) -> None:
        topic_ids = self._broker.image.topic_ids
        for fetch in session.partitions.values():
            topic = fetch.topic
            topic_id = topic if isinstance(topic, bytes) else topic_ids.get(topic)
            if topic_id is not None:
                self._watch(session, fetch, PartitionId(topic_id, fetch.index))

    def _await_metadata(self, parked: ParkedFetch) -> None:
        """The follower is right and we are late: it would back off for a second if told so."""
        next_offset = self._broker.metadata_offset + 1
        self._broker.on_metadata(next_offset, lambda: self._look_soon(parked))

    def _finish(self, parked: ParkedFetch) -> None:
        """Answer with what there is now."""
        session = self._unpark(parked)
        found = self._look(session, parked.call, parked.scope, full=parked.full, counted_ms=None)
        self._answer(parked.call, parked.scope, Opened(session, parked.full), found)

    def _make_way(self, parked: ParkedFetch) -> None:
        """The fetcher has more to say before we had anything: the next request goes on."""
        if parked.full:
            self._finish(parked)
        else:
            session = self._unpark(parked)
            self._answer(parked.call, parked.scope, Opened(session, full=False), _NOTHING)

    def _unpark(self, parked: ParkedFetch) -> FetchSession:
        session = parked.session
        session.parked = None
        self._parked -= 1
        if session.id == NO_SESSION:
            self._unwatch_all(session)
            if session.timer is not None:
                session.timer.cancel()
                session.timer = None
        return session

    # -- waking

    def wake(self, partition: PartitionId, moves: int = 1) -> None:
        """The log end or the leadership of this partition changed: followers and consumers."""
        self._gathering.moves += moves
        for fetch, session in self._watchers.get(partition, _NOBODY).items():
            session.active[fetch] = None
            if session.parked is not None:
                self._look_soon(session.parked)

    def wake_consumers(self, partition: PartitionId) -> None:
        """Its high watermark, last stable offset, log start or ISR changed. Followers are told
        with their next answer."""
        for fetch, session in self._watchers.get(partition, _NOBODY).items():
            session.active[fetch] = None
            parked = session.parked
            if parked is not None and not parked.scope.is_follower:
                self._look_soon(parked)

    def answer_followers(self, partition: PartitionId) -> None:
        """Somebody waits for what followers do when they hear of it: a log start they must pass.
        Otherwise they would hear of it when the time of their parked fetches is over."""
        for fetch, session in list(self._watchers.get(partition, _NOBODY).items()):
            session.active[fetch] = None
            parked = session.parked
            if parked is not None and parked.scope.is_follower:
                self._finish(parked)

    def _look_soon(self, parked: ParkedFetch) -> None:
        """In the next turn of the loop, or a few later if they bring more: what else moves until
        then is found by the same look."""
        if parked.due or parked.session.parked is not parked:
            return
        parked.due = True
        if parked.scope.min_bytes > 1:
            wait_ms = parked.looked_ms + LOOK_AGAIN_MS - self._broker.now_ms()
            if wait_ms > 0:
                self._broker.host.timers.after(wait_ms, lambda: self._look_again(parked))
                return
        self._again.append(parked)
        if len(self._again) == 1:
            self._broker.turn_end.add(self._look_at_all_due)

    def _look_at_all_due(self) -> None:
        if self._gathering.goes_on(self._broker.traffic.bytes_in):
            self._broker.host.network.soon(self._look_after_appends)
            return
        due, self._again = self._again, []
        self._shared = {} if len(due) > 1 else None
        try:
            for parked in due:
                self._look_again(parked)
        finally:
            self._shared = None

    def _look_after_appends(self) -> None:
        """Of the turn that has just passed, if it has brought any."""
        self._broker.turn_end.follow(self._look_at_all_due)

    def _look_again(self, parked: ParkedFetch) -> None:
        parked.due = False
        session, scope = parked.session, parked.scope
        if session.parked is not parked:
            return  # answered meanwhile
        found = self._look(session, parked.call, scope, full=False, counted_ms=None)
        if parked.full and (found.decided or found.size_bytes):
            found = self._look(session, parked.call, scope, full=True, counted_ms=None)
        if found.decided or found.size_bytes >= scope.min_bytes:
            self._unpark(parked)
            self._answer(parked.call, scope, Opened(session, parked.full), found)
            return
        parked.looked_ms = self._broker.now_ms()
        if found.behind:
            self._await_metadata(parked)

    # -- waiting lists

    def _watch(self, session: FetchSession, fetch: PartitionFetch, partition: PartitionId) -> None:
        self._unwatch(fetch)
        fetch.watched = partition
        self._watchers.setdefault(partition, {})[fetch] = session

    def _unwatch(self, fetch: PartitionFetch) -> None:
        partition, fetch.watched = fetch.watched, None
        if partition is not None:
            watchers = self._watchers[partition]
            del watchers[fetch]
            if not watchers:
                del self._watchers[partition]

    def _unwatch_all(self, session: FetchSession) -> None:
        for fetch in session.partitions.values():
            self._unwatch(fetch)

    def _on_session_closed(self, session: FetchSession) -> None:
        """Its parked fetch is answered as if it had none."""
        parked = session.parked
        session.id = NO_SESSION
        if parked is not None:
            self._finish(parked)
        self._unwatch_all(session)
        if session.timer is not None:
            session.timer.cancel()
            session.timer = None


def _follower_fetch(scope: FetchScope, fetch: PartitionFetch) -> FollowerFetch:
    return FollowerFetch(
        scope.replica_id,
        scope.replica_epoch,
        fetch.leader_epoch,
        fetch.fetch_offset,
        fetch.last_fetched_epoch,
        fetch.log_start_offset,
    )


_NOBODY: dict[PartitionFetch, FetchSession] = {}
_NOTHING = Found([], 0, decided=False, behind=False, unread=False)
