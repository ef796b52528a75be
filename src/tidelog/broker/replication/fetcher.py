"""One fetch loop: the partitions that this broker follows on one leader, or a share of them.

One request is under way at a time, with one exception: a partition that joins while a request waits
at the leader would wait with it, so a second request is sent behind it. The leader answers the
first one immediately when it sees the second. Every answer is judged by the positions of its own
request (`SentPositions`), never by the newest ones.

A loop costs what changed: positions that may differ from what the leader's session knows are in
`_changed`, and only those are looked at. All of them are every few seconds, for changes that
nobody reports (our own retention moves the log start).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.fetch.fetch_sessions import EPOCH_MAX, INITIAL_EPOCH, NO_SESSION
from tidelog.broker.replication.fetched_batch import FetchedBatch, fetched_batches
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.replication.follower import FollowerReplica
from tidelog.core.replication.inputs import FetchAnswer, FollowerFetch
from tidelog.core.replication.sent_positions import SentFetch, SentPositions
from tidelog.core.replication.throttle import should_throttle_follower
from tidelog.core.types import EpochEnd, PartitionId
from tidelog.host.ports import ConnectionClosed, NetworkError, PeerRefused, PeerReset
from tidelog.rpc import Answer, EncodedRequest, Peer
from tidelog.wire.protocol.schemas.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from tidelog.wire.protocol.schemas.fetch_response import FetchResponse, PartitionData
from tidelog.wire.protocol.session_fetch import (
    FETCH,
    SessionFetch,
    SessionFetchLimits,
)
from tidelog.wire.protocol.session_fetch import VERSION as FETCH_VERSION
from tidelog.wire.records import InvalidBatch

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.broker.replication.hosted import Hosted
    from tidelog.broker.replication.log_cuts import LogCuts
    from tidelog.broker.replication.replicas import Replicas
    from tidelog.broker.replication.suspected_brokers import SuspectedBrokers
    from tidelog.broker.replication.throttles import Throttle
    from tidelog.config.node_config import Replication
    from tidelog.core.metadata.lifecycle import BrokerLifecycle
    from tidelog.host.node_host import NodeHost
    from tidelog.host.timers import Timer
    from tidelog.observe.traffic import Traffic

IN_FLIGHT_MAX = 2
REVIEW_MS = 5_000
THROTTLED_RETRY_MS = 100

_SESSION_ERRORS = (
    Error.FETCH_SESSION_ID_NOT_FOUND,
    Error.INVALID_FETCH_SESSION_EPOCH,
    Error.FETCH_SESSION_TOPIC_ID_ERROR,
)


class Plan(NamedTuple):
    """What the next request says: new positions, and what it leaves out from now on."""

    moved: dict[PartitionId, FollowerFetch]
    left_out: list[PartitionId]
    returning: list[PartitionId]
    """Fetched again, by the request after it: the leader forgets them first."""
    wake_at_ms: int
    """When a partition that is left out may be fetched again; 0 if nobody knows."""


class FetcherSurroundings(NamedTuple):
    """What the fetch loops of a broker share."""

    settings: Replication
    metadata: LocalMetadata
    replicas: Replicas
    lifecycle: BrokerLifecycle
    suspected: SuspectedBrokers
    throttle: Throttle
    traffic: Traffic
    host: NodeHost
    cuts: LogCuts


class Fetcher:
    """Carries the partitions of one loop."""

    __slots__ = (
        "_asked_ms",
        "_changed",
        "_connected_at",
        "_cuts",
        "_cuts_due",
        "_forgotten",
        "_generation",
        "_host",
        "_hurried",
        "_in_flight",
        "_lifecycle",
        "_metadata",
        "_now_ms",
        "_partitions",
        "_peer",
        "_replicas",
        "_reviewed_ms",
        "_sent",
        "_session_epoch",
        "_session_fetch",
        "_session_id",
        "_settings",
        "_stopped",
        "_suspected",
        "_throttle",
        "_timer",
        "_traffic",
        "leader",
    )

    def __init__(self, leader: int, surroundings: FetcherSurroundings) -> None:
        self.leader = leader
        self._settings = surroundings.settings
        self._metadata = surroundings.metadata
        self._replicas = surroundings.replicas
        self._lifecycle = surroundings.lifecycle
        self._suspected = surroundings.suspected
        self._throttle = surroundings.throttle
        self._traffic = surroundings.traffic
        self._host = surroundings.host
        self._cuts = surroundings.cuts
        self._cuts_due = 0
        """Answers that wait because they cut a log. Nothing is fetched until they are heard: the
        leader would only say the same again."""
        self._now_ms = surroundings.host.clock.monotonic_ms
        self._partitions: dict[PartitionId, Hosted] = {}
        self._changed: dict[PartitionId, None] = {}
        self._sent = SentPositions()
        """What the leader's session knows of us."""
        self._forgotten: dict[PartitionId, FollowerFetch] = {}
        """In the leader's session, with these positions, and to be taken out of it."""
        self._session_id = NO_SESSION
        self._session_epoch = INITIAL_EPOCH
        self._session_fetch: SessionFetch | None = None
        """Puts the requests of the present session together; None before the first."""
        self._peer: Peer | None = None
        self._connected_at = -1
        """Metadata up to this offset say that the peer is where it was."""
        self._in_flight = 0
        self._asked_ms = 0
        """When the last request was sent."""
        self._hurried = False
        self._generation = 0
        self._timer: Timer | None = None
        self._reviewed_ms = self._now_ms()
        self._stopped = False

    # -- which partitions

    def add(self, hosted: Hosted) -> None:
        self._partitions[hosted.partition] = hosted
        self._changed[hosted.partition] = None
        self._hurried = True

    def remove(self, partition: PartitionId) -> None:
        del self._partitions[partition]
        self._changed.pop(partition, None)
        self._leave_out(partition)

    def _leave_out(self, partition: PartitionId) -> None:
        known = self._sent.drop(partition)
        if known is not None:
            self._forgotten[partition] = known

    def note_changed(self, partition: PartitionId) -> None:
        """Its next position may be due: what waits at the leader shall not delay it."""
        self._changed[partition] = None
        self._hurried = True

    def stop(self) -> None:
        self._stopped = True
        self._partitions.clear()
        self._disconnect()
        if self._timer is not None:
            self._timer.cancel()

    # -- asking

    def wake(self) -> None:
        """Send the next fetch, unless one is under way or nothing may be fetched yet."""
        lifecycle = self._lifecycle
        if self._stopped or not self._partitions or not self._may_send():
            return
        assert lifecycle.registered, "a fetch names our incarnation (KIP-903)"
        now = self._now_ms()
        if now - self._reviewed_ms >= REVIEW_MS:
            self._reviewed_ms = now
            self._changed.update(dict.fromkeys(self._partitions))
        self._leave_former_address()
        plan = self._plan(now)
        if plan is None:
            return
        for partition in plan.left_out:
            self._leave_out(partition)
        for partition, fetch in plan.moved.items():
            self._sent.put(partition, fetch)
            self._forgotten.pop(partition, None)
        self._arm(plan.wake_at_ms)
        if plan.returning:
            self._hurried = True
            self._send(plan, lifecycle.broker_epoch)
            self.wake()
        elif self._sent.newest and (self._in_flight == 0 or plan.moved):
            self._hurried = False
            self._send(plan, lifecycle.broker_epoch)

    def _may_send(self) -> bool:
        if self._cuts_due:
            return False
        if self._in_flight == 0:
            return True
        in_session = self._session_epoch != INITIAL_EPOCH
        return self._hurried and in_session and self._in_flight < IN_FLIGHT_MAX

    def _plan(self, now_ms: int) -> Plan | None:
        """None while a log is not durable: the next fetch acknowledges what we hold. Sent
        without that partition it could be parked while the acknowledgement is due."""
        moved: dict[PartitionId, FollowerFetch] = {}
        left_out: list[PartitionId] = []
        returning: list[PartitionId] = []
        wake_at_ms = 0
        for partition in self._changed:
            hosted = self._partitions[partition]
            role = hosted.replica.role
            assert isinstance(role, FollowerReplica), f"{hosted} is fetched in role {role}"
            fetch = role.next_fetch(now_ms)
            if fetch is not None and not self._is_throttled(hosted, role):
                if self._missed_an_answer(partition, fetch):
                    returning.append(partition)
                elif self._sent.newest.get(partition) != fetch:
                    moved[partition] = fetch
                continue
            if fetch is not None:
                retry_at_ms = now_ms + THROTTLED_RETRY_MS
            elif hosted.log.durable_offset < hosted.log.log_end_offset:
                return None
            else:
                retry_at_ms = role.delay_until_ms
            left_out.append(partition)
            if retry_at_ms > now_ms:
                wake_at_ms = min(wake_at_ms or retry_at_ms, retry_at_ms)
        self._changed = dict.fromkeys((*left_out, *returning))
        return Plan(moved, left_out, returning, wake_at_ms)

    def _missed_an_answer(self, partition: PartitionId, fetch: FollowerFetch) -> bool:
        """It was not fetched for a moment, which the leader does not know. What it answered then
        was not heard, and it would never say the same again, such as its high watermark. In
        another leader epoch it begins anew by itself."""
        known = self._forgotten.get(partition)
        in_session = self._session_epoch != INITIAL_EPOCH
        return in_session and known is not None and known.leader_epoch == fetch.leader_epoch

    def _is_throttled(self, hosted: Hosted, role: FollowerReplica) -> bool:
        listed = self._is_listed(hosted)
        return listed and should_throttle_follower(
            listed=listed, over_quota=self._throttle.over_quota(), lag=role.lag
        )

    def _is_listed(self, hosted: Hosted) -> bool:
        listed = hosted.topic_settings.follower_throttled
        if not listed.listed and not listed.all_replicas:  # as good as always
            return False
        return listed.includes(hosted.index, self._metadata.own_id)

    def _send(self, plan: Plan, broker_epoch: int) -> None:
        peer = self._connect()
        if peer is None:
            self._fail(self._now_ms())
            self._arm_for_retry()
            return
        epoch = self._session_epoch
        if epoch == INITIAL_EPOCH or self._forgotten:
            request: FetchRequest | EncodedRequest = self._request(plan, broker_epoch)
        else:
            fetch = self._session_fetch
            if fetch is None or fetch.replica_epoch != broker_epoch:
                fetch = self._session_fetch = self._begin_session(broker_epoch)
            moved = [(*partition, *each[2:]) for partition, each in plan.moved.items()]
            request = EncodedRequest(FETCH, fetch.body(epoch, moved))
        self._forgotten.clear()
        if epoch != INITIAL_EPOCH:
            self._session_epoch = epoch + 1 if epoch < EPOCH_MAX else INITIAL_EPOCH + 1
        self._in_flight += 1
        self._asked_ms = self._now_ms()
        peer.send(
            request,
            FETCH_VERSION,
            partial(self._on_answer, self._generation, self._sent.send()),
            timeout_ms=self._timeout_ms,
            borrows=True,  # appended before `_on_answer` returns
        )

    @property
    def _timeout_ms(self) -> int:
        settings = self._settings
        return settings.fetch_wait_max_ms + settings.socket_timeout_ms

    def _begin_session(self, broker_epoch: int) -> SessionFetch:
        settings = self._settings
        limits = SessionFetchLimits(
            settings.fetch_wait_max_ms,
            settings.fetch_min_bytes,
            settings.fetch_response_max_bytes,
            settings.fetch_max_bytes,
        )
        return SessionFetch(limits, self._session_id, self._metadata.own_id, broker_epoch)

    def _request(self, plan: Plan, broker_epoch: int) -> FetchRequest:
        """One that says everything, or what the session may forget."""
        settings = self._settings
        is_full = self._session_epoch == INITIAL_EPOCH
        return FetchRequest(
            replica_state=ReplicaState(
                replica_id=self._metadata.own_id, replica_epoch=broker_epoch
            ),
            max_wait_ms=settings.fetch_wait_max_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=self._topics(self._sent.newest if is_full else plan.moved),
            forgotten_topics_data=() if is_full else self._forgotten_topics(),
        )

    def _topics(self, fetches: dict[PartitionId, FollowerFetch]) -> list[FetchTopic]:
        max_bytes = self._settings.fetch_max_bytes
        topics: dict[bytes, list[FetchPartition]] = {}
        for (topic_id, index), fetch in fetches.items():
            topics.setdefault(topic_id, []).append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=fetch.leader_epoch,
                    fetch_offset=fetch.fetch_offset,
                    last_fetched_epoch=fetch.last_fetched_epoch,
                    log_start_offset=fetch.log_start_offset,
                    partition_max_bytes=max_bytes,
                )
            )
        return [FetchTopic(topic_id=key, partitions=each) for key, each in topics.items()]

    def _forgotten_topics(self) -> list[ForgottenTopic]:
        topics: dict[bytes, list[int]] = {}
        for topic_id, index in self._forgotten:
            topics.setdefault(topic_id, []).append(index)
        return [ForgottenTopic(topic_id=key, partitions=each) for key, each in topics.items()]

    def _leave_former_address(self) -> None:
        """The leader may have moved. A new session begins there, before anything is said in it."""
        if self._peer is None or self._connected_at == self._metadata.offset:
            return
        self._connected_at = self._metadata.offset
        if self._peer.address != self._metadata.address_of(self.leader):
            self._disconnect()

    def _connect(self) -> Peer | None:
        address = self._metadata.address_of(self.leader) if self._peer is None else None
        if address is not None:
            client_id = f"broker-{self._metadata.own_id}-fetcher"
            self._peer = Peer(self._host.to_brokers, address, client_id)
            self._connected_at = self._metadata.offset
        return self._peer

    # -- hearing

    def _on_answer(self, generation: int, sent: SentFetch, answer: Answer) -> None:
        if generation != self._generation or self._stopped:
            return  # to a request of a connection that was given up
        self._in_flight -= 1
        sent.answered()
        now = self._now_ms()
        if isinstance(answer, NetworkError):
            if isinstance(answer, PeerReset | PeerRefused | ConnectionClosed):
                self._suspected.begin(self.leader)
            self._fail(now)
            self._arm_for_retry()
            return
        assert isinstance(answer, FetchResponse), answer
        self._suspected.end(self.leader)
        if answer.error_code not in (NO_ERROR, *_SESSION_ERRORS):
            self._fail(now)
            self._arm_for_retry()
            return
        try:
            self._hear(sent, answer, now)
        finally:
            self.wake()  # a partition that could not be dealt with does not stop the others

    def _hear(self, sent: SentFetch, answer: FetchResponse, now_ms: int) -> None:
        is_present = sent.session is self._sent
        if answer.error_code != NO_ERROR:
            if is_present:
                self._begin_session_anew()
            return
        if is_present:
            self._follow_session(answer)
        try:
            self._hear_partitions(sent, answer, now_ms)
        finally:
            self._replicas.log_starts.settle()  # the next request tells the leader of them

    def _hear_partitions(self, sent: SentFetch, answer: FetchResponse, now_ms: int) -> None:
        for topic in answer.responses:
            for data in topic.partitions:
                partition = PartitionId(topic.topic_id, data.partition_index)
                fetch = sent.position(partition)
                if fetch is None:
                    continue
                if data.diverging_epoch is None or self._cuts.may_begin():
                    self._take(partition, fetch, data, now_ms)
                else:
                    self._take_later(partition, fetch, data)

    def _follow_session(self, answer: FetchResponse) -> None:
        if self._session_epoch == INITIAL_EPOCH and answer.session_id != NO_SESSION:
            self._session_id = answer.session_id
            self._session_epoch = INITIAL_EPOCH + 1
        elif self._session_epoch != INITIAL_EPOCH and answer.session_id != self._session_id:
            self._begin_session_anew()
            self._session_id = answer.session_id

    def _take(
        self, partition: PartitionId, fetch: FollowerFetch, data: PartitionData, now_ms: int
    ) -> None:
        """`fetch` is what was asked for; the role knows whether that still fits."""
        hosted = self._partitions.get(partition)
        if hosted is None:
            return  # dropped since it was asked for
        self._changed[partition] = None
        role = hosted.follower
        if role is None:
            return
        size_bytes = len(data.records) if data.records is not None else 0
        self._traffic.replication_bytes_in += size_bytes
        if size_bytes and self._is_listed(hosted):
            self._throttle.record(size_bytes)
        effects = role.on_fetch_answer(fetch, _fetch_answer(data), now_ms)
        if effects:
            self._replicas.perform(hosted, effects)

    def _take_later(
        self, partition: PartitionId, fetch: FollowerFetch, data: PartitionData
    ) -> None:
        self._cuts_due += 1
        # Not as it came: what it borrows from the connection ends with this callback.
        diverging = PartitionData(
            partition_index=data.partition_index,
            error_code=data.error_code,
            diverging_epoch=data.diverging_epoch,
            high_watermark=data.high_watermark,
            log_start_offset=data.log_start_offset,
        )
        self._cuts.later(partial(self._cut, self._generation, partition, fetch, diverging))

    def _cut(
        self, generation: int, partition: PartitionId, fetch: FollowerFetch, data: PartitionData
    ) -> None:
        if generation != self._generation or self._stopped:
            return  # it is asked for again
        self._cuts_due -= 1
        try:
            self._take(partition, fetch, data, self._now_ms())
        finally:
            self._replicas.log_starts.settle()
            self.wake()

    # -- failing

    def revive(self, now_ms: int) -> None:
        """Whatever became of the last request, this loop goes on."""
        if self._in_flight and now_ms - self._asked_ms > 2 * self._timeout_ms:
            self._fail(now_ms)
            self._arm_for_retry()
        else:
            self.wake()

    def _fail(self, now_ms: int) -> None:
        """No answer: every partition backs off, and the next request begins a new session."""
        self._disconnect()
        for hosted in list(self._partitions.values()):
            role = hosted.follower
            if role is not None:
                role.on_fetch_failed(now_ms)

    def _disconnect(self) -> None:
        self._generation += 1
        self._in_flight = self._cuts_due = 0
        peer, self._peer = self._peer, None
        if peer is not None:
            peer.close()
        self._begin_session_anew()

    def _begin_session_anew(self) -> None:
        """The id is still said, so that the leader can drop the old session."""
        self._session_epoch = INITIAL_EPOCH
        self._session_fetch = None
        self._sent = SentPositions()
        self._forgotten.clear()
        self._changed = dict.fromkeys(self._partitions)

    def _arm_for_retry(self) -> None:
        waits = [role.delay_until_ms for h in self._partitions.values() if (role := h.follower)]
        self._arm(min(waits, default=0))

    def _arm(self, at_ms: int) -> None:
        if at_ms == 0:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._host.timers.add(at_ms, self._on_timer)

    def _on_timer(self) -> None:
        self._hurried = True
        self.wake()


def _fetch_answer(data: PartitionData) -> FetchAnswer:
    """An answer as the state machine knows it. Bytes that are no batches are an error."""
    error = NO_ERROR if data.error_code == 0 else _known(data.error_code)
    diverging = data.diverging_epoch
    batches: tuple[FetchedBatch, ...] = ()
    if data.records is not None and len(data.records):
        try:
            batches = tuple(fetched_batches(memoryview(data.records)))
        except InvalidBatch:
            error = Error.CORRUPT_MESSAGE
    return FetchAnswer(
        error,
        EpochEnd(diverging.epoch, diverging.end_offset) if diverging is not None else None,
        data.high_watermark,
        data.log_start_offset,
        batches,
    )


def _known(code: int) -> Error:
    try:
        return Error(code)
    except ValueError:
        return Error.UNKNOWN_SERVER_ERROR
