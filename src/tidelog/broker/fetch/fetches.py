"""Every fetch on this broker: answered immediately or parked (replication.md §6, §8.2, §9).

What there is for a fetch, a look into its partitions says (`session_reader`). A fetch that finds
too little is parked: its session stands in the waiting lists of its partitions (`waiting_lists`). A
partition that moves makes the session active, and the fetch is looked at again, at most once per
turn of the event loop however many partitions moved (`gathering`).

Partitions of a session that did not move are not looked at (KIP-227), except every now and then:
the leader has to see that a caught-up follower still fetches, and things that nobody wakes us for
have to be told some time. `REVIEWS_PER_LAG_TIME` bounds both.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.fetch import fetch_answer
from tidelog.broker.fetch.fetch_answer import FetchScope
from tidelog.broker.fetch.fetch_sessions import (
    NO_SESSION,
    FetchSession,
    FetchSessions,
    Opened,
    PartitionFetch,
)
from tidelog.broker.fetch.gathering import Gathering
from tidelog.broker.fetch.overheard import Overheard
from tidelog.broker.fetch.session_reader import Found, SessionReader
from tidelog.core.errors import Error
from tidelog.core.types import PartitionId
from tidelog.rpc import Call
from tidelog.wire.protocol.schemas.fetch_request import FetchRequest

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.broker.turn_end import TurnEnd
    from tidelog.config.settings import Settings
    from tidelog.host.node_host import NodeHost
    from tidelog.observe.traffic import Traffic

REVIEWS_PER_LAG_TIME = 4
"""How often a session looks at all its partitions within `replica.lag.time.max.ms`: a follower
that fetches is then never seen to be late by more than a quarter of what is allowed."""
REVIEW_MAX_MS = 5_000

LOOK_AGAIN_MS = 10
"""A fetch that wants many bytes does not read what there is again with every append."""


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


class Fetches:
    """The way of every fetch from its frame to its answer. One per broker."""

    __slots__ = (
        "_answer_max_bytes",
        "_due",
        "_gathering",
        "_host",
        "_metadata",
        "_now_ms",
        "_parked",
        "_reader",
        "_review_ms",
        "_traffic",
        "_turn_end",
        "_waiting",
        "overheard",
        "sessions",
    )

    def __init__(
        self,
        metadata: LocalMetadata,
        reader: SessionReader,
        turn_end: TurnEnd,
        traffic: Traffic,
        host: NodeHost,
        *,
        settings: Settings,
    ) -> None:
        self._metadata = metadata
        self._reader = reader
        self._waiting = reader.waiting
        self._turn_end = turn_end
        self._traffic = traffic
        self._host = host
        self._now_ms = host.clock.monotonic_ms
        self.overheard = Overheard(host.clock)
        self.sessions = FetchSessions(
            settings.whole("max.incremental.fetch.session.cache.slots"),
            host.entropy.below,
            self._on_session_closed,
        )
        self._answer_max_bytes = settings.whole("fetch.max.bytes")
        lag_ms = settings.whole("replica.lag.time.max.ms")
        self._review_ms = min(lag_ms // REVIEWS_PER_LAG_TIME, REVIEW_MAX_MS)
        self._due: list[ParkedFetch] = []
        """Parked fetches whose partitions moved: looked at again at the end of this turn."""
        self._gathering = Gathering()
        self._parked = 0

    @property
    def parked_count(self) -> int:
        """Fetches that wait now."""
        return self._parked

    @property
    def watched_count(self) -> int:
        """Partitions with a waiting list."""
        return len(self._waiting)

    # -- a fetch arrives

    def fetch(self, call: Call, request: FetchRequest) -> None:
        """Answer, now or within the time the fetcher grants."""
        now = self._now_ms()
        scope = fetch_answer.scope_of(call, request, self._answer_max_bytes)
        opened = self.sessions.open(request, call.version, privileged=scope.is_follower, now_ms=now)
        if isinstance(opened, Error):
            call.answer(fetch_answer.refusal(opened))
            return
        session = opened.session
        for forgotten in opened.forgotten:
            self._waiting.unwatch(forgotten)
        if session.parked is not None:
            self._answer_early(session.parked)
        if not opened.full and not session.partitions:
            self.sessions.close(session.id)
            session.id = NO_SESSION
        elif now - session.reviewed_ms >= self._review_ms:
            session.review(partial(self._reader.is_settled, scope, now), now)
        reads = not self._reads_later(scope, opened)
        found = self._reader.look(
            session, call, scope, full=opened.full, counted_ms=now, reads=reads
        )
        if self.overheard.partitions and scope.is_follower:
            self.overheard.note_fetch(scope.replica_id, session, found.looks)
        if self._is_enough(found, scope, opened):
            self._answer(call, scope, opened, found)
            return
        parked = ParkedFetch(call, scope, opened, now)
        self._park(parked)
        if found.unread:
            self._look_again_soon(parked)
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
        session, traffic = opened.session, self._traffic
        if scope.is_follower:
            traffic.replication_bytes_out += found.size_bytes
            if self.overheard.partitions:
                self.overheard.note_answer(scope.replica_id, found.looks)
        else:
            traffic.bytes_out += found.size_bytes
        call.answer(fetch_answer.response(self._metadata.image, session, scope, found.looks))
        for look in found.looks:
            # After anything but a sound answer the next sound one is told, whatever it says.
            look.fetch.told = None if look.is_decided else look.state
            session.active.pop(look.fetch, None)
            if not look.is_quiet:
                session.active[look.fetch] = None  # behind those that were not served yet

    # -- waiting

    def _park(self, parked: ParkedFetch) -> None:
        session = parked.session
        session.parked = parked
        self._parked += 1
        if session.timer is None or parked.end_ms < session.due_ms:
            self._plan_end(session, parked.end_ms)
        if session.id == NO_SESSION:
            self._watch_until_answered(session)
        parked.call.when_it_holds_up(partial(self._turn_end.add, partial(self._give_way, parked)))

    def _give_way(self, parked: ParkedFetch) -> None:
        """Answers that its client wants too are ready, and would wait for records that may not come
        (ADR 0054)."""
        if parked.session.parked is parked:
            self._finish(parked)

    def _plan_end(self, session: FetchSession, due_ms: int) -> None:
        """One timer serves many fetches of a session, as most are answered before their end."""
        if session.timer is not None:
            session.timer.cancel()
        session.due_ms = due_ms
        session.timer = self._host.timers.add(due_ms, partial(self._on_due, session))

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
        topic_ids = self._metadata.image.topic_ids
        for fetch in session.partitions.values():
            topic = fetch.topic
            topic_id = topic if isinstance(topic, bytes) else topic_ids.get(topic)
            if topic_id is not None:
                self._waiting.watch(session, fetch, PartitionId(topic_id, fetch.index))

    def _await_metadata(self, parked: ParkedFetch) -> None:
        """The follower is right and we are late: it would back off for a second if told so."""
        next_offset = self._metadata.offset + 1
        self._metadata.when_followed(next_offset, lambda: self._look_again_soon(parked))

    def _finish(self, parked: ParkedFetch) -> None:
        """Answer with what there is now."""
        session = self._unpark(parked)
        found = self._reader.look(
            session, parked.call, parked.scope, full=parked.full, counted_ms=None
        )
        self._answer(parked.call, parked.scope, Opened(session, parked.full), found)

    def _answer_early(self, parked: ParkedFetch) -> None:
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
            self._waiting.unwatch_all(session)
            if session.timer is not None:
                session.timer.cancel()
                session.timer = None
        return session

    # -- waking

    def wake(self, partition: PartitionId, moves: int = 1) -> None:
        """The log end or the leadership of this partition changed: followers and consumers."""
        self._gathering.moves += moves
        for fetch, session in self._waiting.by_partition.get(partition, _NOBODY).items():
            session.active[fetch] = None
            if session.parked is not None:
                self._look_again_soon(session.parked)

    def wake_consumers(self, partition: PartitionId) -> None:
        """Its high watermark, last stable offset, log start or ISR changed. Followers are told
        with their next answer."""
        for fetch, session in self._waiting.by_partition.get(partition, _NOBODY).items():
            session.active[fetch] = None
            parked = session.parked
            if parked is not None and not parked.scope.is_follower:
                self._look_again_soon(parked)

    def answer_followers(self, partition: PartitionId) -> None:
        """Somebody waits for what followers do when they hear of it: a log start they must pass.
        Otherwise they would hear of it when the time of their parked fetches is over."""
        for fetch, session in list(self._waiting.by_partition.get(partition, _NOBODY).items()):
            session.active[fetch] = None
            parked = session.parked
            if parked is not None and parked.scope.is_follower:
                self._finish(parked)

    def _look_again_soon(self, parked: ParkedFetch) -> None:
        """In the next turn of the loop, or a few later if they bring more: what else moves until
        then is found by the same look."""
        if parked.due or parked.session.parked is not parked:
            return
        parked.due = True
        if parked.scope.min_bytes > 1:
            wait_ms = parked.looked_ms + LOOK_AGAIN_MS - self._now_ms()
            if wait_ms > 0:
                self._host.timers.after(wait_ms, lambda: self._serve_parked(parked))
                return
        self._due.append(parked)
        if len(self._due) == 1:
            self._turn_end.add(self._serve_due)

    def _serve_due(self) -> None:
        if self._gathering.goes_on(self._traffic.bytes_in):
            self._host.network.soon(self._serve_due_after_appends)
            return
        due, self._due = self._due, []
        self._reader.shared = {} if len(due) > 1 else None
        try:
            for parked in due:
                self._serve_parked(parked)
        finally:
            self._reader.shared = None

    def _serve_due_after_appends(self) -> None:
        """Of the turn that has just passed, if it has brought any."""
        self._turn_end.follow(self._serve_due)

    def _serve_parked(self, parked: ParkedFetch) -> None:
        parked.due = False
        session, scope = parked.session, parked.scope
        if session.parked is not parked:
            return  # answered meanwhile
        found = self._reader.look(session, parked.call, scope, full=False, counted_ms=None)
        if parked.full and (found.decided or found.size_bytes):
            found = self._reader.look(session, parked.call, scope, full=True, counted_ms=None)
        if found.decided or found.size_bytes >= scope.min_bytes:
            self._unpark(parked)
            self._answer(parked.call, scope, Opened(session, parked.full), found)
            return
        parked.looked_ms = self._now_ms()
        if found.behind:
            self._await_metadata(parked)

    # -- sessions that end

    def _on_session_closed(self, session: FetchSession) -> None:
        """Its parked fetch is answered as if it had none."""
        parked = session.parked
        session.id = NO_SESSION
        if parked is not None:
            self._finish(parked)
        self._waiting.unwatch_all(session)
        if session.timer is not None:
            session.timer.cancel()
            session.timer = None


_NOBODY: dict[PartitionFetch, FetchSession] = {}
_NOTHING = Found([], 0, decided=False, behind=False, unread=False)
