"""The types of a fetch: its scope, taken from a request, and views of a response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from tidelog.broker.fetch.fetch_sessions import FetchSession, PartitionFetch, Told
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.replication.inputs import NO_REPLICA, FetchDecision
from tidelog.core.types import NO_EPOCH, NO_LEADER, NO_OFFSET, PartitionId
from tidelog.host.ports import Buffer, FileRange
from tidelog.rpc import Call
from tidelog.storage.log import Log
from tidelog.wire.protocol import ZERO_UUID
from tidelog.wire.protocol.schemas.fetch_request import FetchRequest
from tidelog.wire.protocol.schemas.fetch_response import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from tidelog.wire.records import iter_batches

FIRST_VERSION_WITH_RACK = 11
FIRST_VERSION_THAT_UNDERSTANDS_OFFSET_NOT_AVAILABLE = 13
"""Java, librdkafka and franz-go send these and ask again; older clients fail (ADR 0005)."""
FIRST_VERSION_WITH_LEADER_HINTS = 16

_NOWHERE: Told = (NO_OFFSET, NO_OFFSET, NO_OFFSET)
_HINTED = (Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH)


class FetchScope(NamedTuple):
    """What holds for every partition of one request."""

    is_follower: bool
    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool
    rack: str | None
    version: int
    listener: str

    @property
    def leader_only(self) -> bool:
        """Too old to be sent to another replica: it cannot say where it is."""
        return self.version < FIRST_VERSION_WITH_RACK

    @property
    def understands_offset_not_available(self) -> bool:
        return self.version >= FIRST_VERSION_THAT_UNDERSTANDS_OFFSET_NOT_AVAILABLE


def scope_of(call: Call, request: FetchRequest, answer_max_bytes: int) -> FetchScope:
    sender = request.replica_state
    replica_id = sender.replica_id if sender is not None else request.replica_id
    return FetchScope(
        replica_id >= 0,
        replica_id,
        sender.replica_epoch if sender is not None else NO_EPOCH,
        request.max_wait_ms,
        min(request.min_bytes, request.max_bytes),
        max(min(request.max_bytes, answer_max_bytes), 0),
        request.isolation_level == 1,
        request.rack_id or None,
        call.version,
        call.caller.listener,
    )


class Look:
    """What one partition has for one fetch."""

    __slots__ = (
        "aborted",
        "decision",
        "error",
        "fetch",
        "in_sync",
        "is_decided",
        "records",
        "state",
    )

    def __init__(
        self,
        fetch: PartitionFetch,
        error: Error,
        decision: FetchDecision | None = None,
        *,
        in_sync: bool = True,
    ) -> None:
        self.fetch = fetch
        self.error = error
        self.decision = decision
        self.in_sync = in_sync
        self.records: Buffer | FileRange = b""
        self.aborted: Sequence[AbortedTransaction] = ()
        self.state = _NOWHERE
        self.is_decided = True
        """The fetcher has to hear of it at once."""
        if decision is not None:
            self.state = (
                decision.high_watermark,
                decision.last_stable_offset,
                decision.log_start_offset,
            )
            self.is_decided = (
                error is not NO_ERROR
                or decision.diverging is not None
                or decision.preferred_replica != NO_REPLICA
            )

    @property
    def has_news(self) -> bool:
        return len(self.records) > 0 or self.is_decided or self.state != self.fetch.told

    @property
    def is_quiet(self) -> bool:
        """Nothing can come of looking again before something moves. A follower that is not in
        sync is looked at with every fetch: it may join."""
        decision = self.decision
        return (
            decision is not None
            and not self.is_decided
            and decision.read_from >= decision.read_to
            and self.in_sync
        )


def aborted_transactions(
    log: Log, decision: FetchDecision, records: memoryview | FileRange
) -> list[AbortedTransaction]:
    """Those with a record in what is answered; usually none, so headers are rarely walked."""
    aborted = log.aborted_transactions(decision.read_from, decision.read_to)
    if not aborted:
        return []
    content = records if isinstance(records, memoryview) else records.read()
    end = max(header.next_offset for _, header in iter_batches(content))
    return [
        AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
        for each in aborted
        if each.first_offset < end
    ]


def refusal(error: Error) -> FetchResponse:
    """The session is not what the fetcher believes; it begins a new one."""
    return FetchResponse(error_code=error)


def response(
    image: MetadataImage, session: FetchSession, scope: FetchScope, looks: Sequence[Look]
) -> FetchResponse:
    topics: dict[bytes | str, list[PartitionData]] = {}
    leaders: dict[int, None] = {}
    for look in looks:
        data = _partition_data(look, scope)
        if look.error in _HINTED and scope.version >= FIRST_VERSION_WITH_LEADER_HINTS:
            data.current_leader = hint = _current_leader(image, look.fetch)
            if hint is not None:
                leaders[hint.leader_id] = None
        topics.setdefault(look.fetch.topic, []).append(data)
    return FetchResponse(
        session_id=session.id,
        responses=[
            FetchableTopicResponse(
                topic_id=topic if isinstance(topic, bytes) else ZERO_UUID,
                topic=topic if isinstance(topic, str) else "",
                partitions=partitions,
            )
            for topic, partitions in topics.items()
        ],
        node_endpoints=_endpoints(image, leaders, scope.listener) if leaders else (),
    )


def _partition_data(look: Look, scope: FetchScope) -> PartitionData:
    high_watermark, last_stable_offset, log_start_offset = look.state
    if look.error and not scope.is_follower:
        # Clients show what an error carries too, and a new leader's may lag for a moment.
        high_watermark = last_stable_offset = NO_OFFSET
    decision = look.decision
    diverging = decision.diverging if decision is not None else None
    wants_aborted = scope.read_committed and not scope.is_follower
    return PartitionData(
        partition_index=look.fetch.index,
        error_code=look.error,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
        log_start_offset=log_start_offset,
        diverging_epoch=(
            EpochEndOffset(epoch=diverging.leader_epoch, end_offset=diverging.end_offset)
            if diverging is not None
            else None
        ),
        aborted_transactions=look.aborted if wants_aborted else None,
        preferred_read_replica=decision.preferred_replica if decision is not None else NO_REPLICA,
        records=cast(Buffer, look.records),  # an encoder only asks how long it is
    )


def _current_leader(image: MetadataImage, fetch: PartitionFetch) -> LeaderIdAndEpoch | None:
    """KIP-951: the new leader, so that the client need not ask for metadata first."""
    topic_id = fetch.topic if isinstance(fetch.topic, bytes) else image.topic_ids.get(fetch.topic)
    state = image.partition(PartitionId(topic_id, fetch.index)) if topic_id is not None else None
    if state is None or state.leader == NO_LEADER:
        return None
    return LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)


def _endpoints(image: MetadataImage, leaders: dict[int, None], listener: str) -> list[NodeEndpoint]:
    found = []
    for leader in leaders:
        registration = image.brokers.get(leader)
        for endpoint in registration.endpoints if registration is not None else ():
            if endpoint.name == listener:
                assert registration is not None
                found.append(
                    NodeEndpoint(
                        node_id=leader,
                        host=endpoint.host,
                        port=endpoint.port,
                        rack=registration.rack,
                    )
                )
    return found
