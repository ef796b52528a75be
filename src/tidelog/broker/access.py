"""Guards of the requests that are hot or large: Produce, Fetch, Metadata, DescribeTopicPartitions.

A fetch session is allowed as a whole when it begins, for one caller and one state of the rules.
When either is another one, the session is unknown: the client then names all its partitions again,
and every topic is looked at. So a fetch that goes on costs one comparison.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from tidelog.broker.fetch.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH
from tidelog.broker.handlers.metadata import FIRST_BY_ID
from tidelog.core.errors import Error
from tidelog.core.security.acls import CLUSTER_NAME, Operation, ResourceType
from tidelog.rpc.authorization import item_refusals
from tidelog.rpc.authorization.gate import Gate
from tidelog.rpc.authorization.guards import (
    extend,
    split,
    the_topic,
    told_operations,
    told_operations_on_cluster,
)
from tidelog.rpc.authorization.table import BROKER
from tidelog.rpc.calls import AmendedCall, Call, Handler
from tidelog.rpc.slices import slices
from tidelog.wire.protocol import ZERO_UUID
from tidelog.wire.protocol.schemas.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from tidelog.wire.protocol.schemas.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponse,
)
from tidelog.wire.protocol.schemas.fetch_request import FetchRequest
from tidelog.wire.protocol.schemas.fetch_response import FetchResponse
from tidelog.wire.protocol.schemas.metadata_request import MetadataRequest, MetadataRequestTopic
from tidelog.wire.protocol.schemas.metadata_response import MetadataResponseTopic
from tidelog.wire.protocol.schemas.produce_request import ProduceRequest
from tidelog.wire.protocol.schemas.produce_response import ProduceResponse

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker
    from tidelog.broker.control.local_metadata import LocalMetadata
    from tidelog.rpc.authorization.guards import Guard

TOPIC, TRANSACTION = ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE

ATTRIBUTES_LOW_BYTE = 22
"""Where it is in the header of a batch."""
TRANSACTIONAL = 0x10
AT_ONCE = 500
"""Topics that are looked at in one turn of the loop."""


def guards(broker: Broker) -> dict[int, tuple[Guard, ...]]:
    """Of every API that a broker serves itself."""
    return {
        **BROKER,
        0: (guard_produce,),
        1: (partial(guard_fetch, broker),),
        75: (partial(guard_topic_partitions, broker.metadata), OPERATIONS_ON_TOPICS),
    }


# ---- Produce


def guard_produce(gate: Gate, call: Call) -> Call | None:
    request = call.request
    assert isinstance(request, ProduceRequest), request
    if has_transactional(request):
        name = request.transactional_id
        if name is None or not gate.allows(call, WRITE, TRANSACTION, name):
            error = Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            refuse_produce(call, request, error)
            return None
    for topic in request.topic_data:
        name = topic.name or gate.topic_name(topic.topic_id)
        if name is not None and not gate.would_allow(call, WRITE, TOPIC, name):
            return refuse_some(gate, call, request)
    return call


def refuse_some(gate: Gate, call: Call, request: ProduceRequest) -> Call | None:
    """Without an answer to refuse in, one topic that is not allowed ends the connection."""
    error = Error.TOPIC_AUTHORIZATION_FAILED
    allowed = {
        id(topic): (name := gate.name_of(topic)) is None or gate.allows(call, WRITE, TOPIC, name)
        for topic in request.topic_data
    }
    if request.acks == 0:
        refuse_produce(call, request, error)
        return None
    return split(
        call,
        "topic_data",
        "responses",
        lambda topic: allowed[id(topic)],
        lambda topic: item_refusals.produce_topic(topic, error),
    )


def has_transactional(request: ProduceRequest) -> bool:
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if (
                records is not None
                and len(records) > ATTRIBUTES_LOW_BYTE
                and records[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL
            ):
                return True
    return False


def refuse_produce(call: Call, request: ProduceRequest, error: Error) -> None:
    if request.acks == 0:
        call.answer_nothing()
        call.close()
        return
    topics = [item_refusals.produce_topic(topic, error) for topic in request.topic_data]
    call.answer(ProduceResponse(responses=topics))


# ---- Fetch


def guard_fetch(broker: Broker, gate: Gate, call: Call) -> Call | None:
    request = call.request
    assert isinstance(request, FetchRequest), request
    sender = request.replica_state
    if (sender.replica_id if sender is not None else request.replica_id) >= 0:
        return guard_replica_fetch(gate, call, request)
    permit = (gate.authorizer.generation, call.caller)
    begins = request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH)
    if not begins:
        session = broker.fetches.sessions.find(request.session_id)
        if session is not None and session.permit != permit:
            call.answer(FetchResponse(error_code=Error.FETCH_SESSION_ID_NOT_FOUND))
            return None
    kept: list[Any] = []
    refused: list[Any] = []
    for topic in request.topics:
        (kept if may_read(gate, call, topic) else refused).append(topic)
    if refused and not begins:
        call.answer(FetchResponse(error_code=Error.FETCH_SESSION_ID_NOT_FOUND))
        return None
    if refused:
        request.topics = kept
        if kept:
            return without_session(call, request, refused)
        refuse_fetch(call, refused)
        return None
    if request.session_epoch == INITIAL_EPOCH:
        return AmendedCall(call, partial(note_permit, broker, permit))
    return call


def guard_replica_fetch(gate: Gate, call: Call, request: FetchRequest) -> Call | None:
    if gate.allows_on_cluster(call, Operation.CLUSTER_ACTION):
        return call
    refuse_fetch(call, request.topics)
    return None


def refuse_fetch(call: Call, topics: Iterable[Any]) -> None:
    error = Error.TOPIC_AUTHORIZATION_FAILED
    results = [item_refusals.fetch_topic(topic, error) for topic in topics]
    call.answer(FetchResponse(responses=results))


def may_read(gate: Gate, call: Call, topic: Any) -> bool:
    name = topic.topic or gate.topic_name(topic.topic_id)
    return name is None or gate.allows(call, READ, TOPIC, name)


def without_session(call: Call, request: FetchRequest, refused: list[Any]) -> Call:
    """What was refused must be asked for again and again, so nothing of it is remembered."""
    request.session_epoch = FINAL_EPOCH
    request.max_wait_ms = 0
    error = Error.TOPIC_AUTHORIZATION_FAILED
    results = [item_refusals.fetch_topic(topic, error) for topic in refused]
    return AmendedCall(call, partial(extend, "responses", results))


def note_permit(broker: Broker, permit: object, response: Any) -> None:
    session = broker.fetches.sessions.find(response.session_id)
    if session is not None:
        session.permit = permit


# ---- Metadata and its successor

OPERATIONS_ON_TOPICS = told_operations(
    "include_topic_authorized_operations",
    "topics",
    "topic_authorized_operations",
    TOPIC,
    the_topic,
)
OPERATIONS_ON_CLUSTER = told_operations_on_cluster("include_cluster_authorized_operations")


class GuardedMetadata:
    """Metadata about topics that the caller may describe; creates those that he may create."""

    __slots__ = ("_auto_create", "_gate", "_handler", "_metadata")

    def __init__(self, gate: Gate, broker: Broker, handler: Handler) -> None:
        self._gate = gate
        self._metadata = broker.metadata
        self._auto_create = broker.config.auto_create_topics
        self._handler = handler

    def handle(self, call: Call) -> None:
        request = call.request
        assert isinstance(request, MetadataRequest), request
        if request.topics is None or (call.version == 0 and not request.topics):
            names = list(self._metadata.image.topic_ids)
            if len(names) > AT_ONCE:
                call.run(self._all_in_slices(call, request, names))
            else:
                self._serve_all(call, request, self._seen(call, names))
            return
        if len(request.topics) > AT_ONCE:
            call.run(self._some_in_slices(call, request))
        else:
            refused = self._refused(call, request, request.topics)
            self._serve_some(call, request, refused)

    # -- all topics

    def _seen(self, call: Call, names: Iterable[str]) -> list[str]:
        allows = self._gate.would_allow
        return [name for name in names if allows(call, DESCRIBE, TOPIC, name)]

    async def _all_in_slices(self, call: Call, request: MetadataRequest, names: list[str]) -> None:
        seen: list[str] = []
        async for some in slices(names, AT_ONCE):
            seen += self._seen(call, some)
        self._serve_all(call, request, seen)

    def _serve_all(self, call: Call, request: MetadataRequest, seen: list[str]) -> None:
        everything = len(seen) == len(self._metadata.image.topic_ids)
        if not everything and (seen or call.version > 0):
            request.topics = [MetadataRequestTopic(name=name) for name in seen]
            request.allow_auto_topic_creation = False
        self._finish(call, hide_all=not everything and not seen)

    # -- named topics

    def _refused(
        self, call: Call, request: MetadataRequest, topics: Iterable[MetadataRequestTopic]
    ) -> dict[int, MetadataResponseTopic]:
        """By the identity of the item."""
        return {
            id(topic): refusal
            for topic in topics
            if (refusal := self._refusal(call, request, topic)) is not None
        }

    def _refusal(
        self, call: Call, request: MetadataRequest, topic: MetadataRequestTopic
    ) -> MetadataResponseTopic | None:
        """Ids are no secret in Kafka, but a name is not told for one."""
        if call.version < FIRST_BY_ID:
            topic.topic_id = ZERO_UUID  # the name counts: it alone must be allowed
        gate = self._gate
        name = gate.name_of(topic)
        error = Error.TOPIC_AUTHORIZATION_FAILED
        if name is None:
            return None
        if not gate.allows(call, DESCRIBE, TOPIC, name):
            by_id = topic.topic_id != ZERO_UUID
            return MetadataResponseTopic(
                error_code=error, name=None if by_id else name, topic_id=topic.topic_id
            )
        creates = request.allow_auto_topic_creation and self._auto_create
        if (
            creates
            and name not in self._metadata.image.topic_ids
            and not self._may_create(call, name)
        ):
            return MetadataResponseTopic(error_code=error, name=name)
        return None

    def _may_create(self, call: Call, name: str) -> bool:
        gate, create = self._gate, Operation.CREATE
        if gate.would_allow(call, create, ResourceType.CLUSTER, CLUSTER_NAME):
            return True
        return gate.allows(call, create, TOPIC, name)

    async def _some_in_slices(self, call: Call, request: MetadataRequest) -> None:
        refused: dict[int, MetadataResponseTopic] = {}
        async for some in slices(request.topics or (), AT_ONCE):
            refused.update(self._refused(call, request, some))
        self._serve_some(call, request, refused)

    def _serve_some(
        self, call: Call, request: MetadataRequest, refused: dict[int, MetadataResponseTopic]
    ) -> None:
        if refused:
            topics = request.topics or ()
            request.topics = [each for each in topics if id(each) not in refused]
            call = AmendedCall(call, partial(extend, "topics", list(refused.values())))
            # Version 0 has no list for "none": an empty one means all, and is dropped again.
            self._finish(call, hide_all=not request.topics and call.version == 0)
        else:
            self._finish(call)

    def _finish(self, call: Call, *, hide_all: bool = False) -> None:
        if hide_all:
            call = AmendedCall(call, hide_topics)
        for guard in (OPERATIONS_ON_TOPICS, OPERATIONS_ON_CLUSTER):
            admitted = guard(self._gate, call)
            assert admitted is not None, "it only amends"
            call = admitted
        self._handler(call)


def hide_topics(response: Any) -> None:
    response.topics = []


def guard_topic_partitions(metadata: LocalMetadata, gate: Gate, call: Call) -> Call | None:
    request = call.request
    assert isinstance(request, DescribeTopicPartitionsRequest), request
    if request.topics:
        return split(
            call,
            "topics",
            "topics",
            lambda topic: gate.allows(call, DESCRIBE, TOPIC, topic.name),
            lambda topic: item_refusals.describe_topic_partitions(
                topic, Error.TOPIC_AUTHORIZATION_FAILED
            ),
        )
    names = metadata.image.topic_ids
    seen = [name for name in names if gate.would_allow(call, DESCRIBE, TOPIC, name)]
    if not seen:
        call.answer(DescribeTopicPartitionsResponse())
        return None
    request.topics = [TopicRequest(name=name) for name in seen]
    return call
