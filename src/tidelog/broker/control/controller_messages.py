"""Messages between a broker and the active controller, translated between core values and wire.

A core request is a plain value; here it gets the shape and the version that it travels in, and
the answer on the wire becomes a core response again.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tidelog.core.errors import Error
from tidelog.core.requests import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    IsrProposal,
    IsrResult,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)
from tidelog.core.types import PartitionId
from tidelog.wire.protocol import Message, Struct
from tidelog.wire.protocol.schemas import alter_partition_request as alter
from tidelog.wire.protocol.schemas import broker_registration_request as registration
from tidelog.wire.protocol.schemas.alter_partition_response import (
    AlterPartitionResponse as AlterPartitionAnswer,
)
from tidelog.wire.protocol.schemas.broker_heartbeat_request import BrokerHeartbeatRequest
from tidelog.wire.protocol.schemas.broker_heartbeat_response import BrokerHeartbeatResponse
from tidelog.wire.protocol.schemas.broker_registration_response import BrokerRegistrationResponse

REGISTRATION_VERSION = 4
HEARTBEAT_VERSION = 1
ALTER_PARTITION_VERSION = 3
"""The first one in which the members of an in-sync set come with their broker epochs (KIP-903)."""

PROTOCOL_NUMBERS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

LifecycleRequest = RegisterBrokerRequest | HeartbeatRequest
LifecycleResponse = RegisterBrokerResponse | HeartbeatResponse


class Outgoing(NamedTuple):
    """A request as it travels."""

    message: Message
    version: int


def error_of(code: int) -> Error:
    """A code that we never answer with may still come from a peer of another release."""
    try:
        return Error(code)
    except ValueError:
        return Error.UNKNOWN_SERVER_ERROR


# ---- lifecycle


def lifecycle_message(request: LifecycleRequest, protocols: Mapping[str, int]) -> Outgoing:
    """`protocols`: the number of the security protocol by the name of the listener."""
    if isinstance(request, RegisterBrokerRequest):
        return Outgoing(_registration(request, protocols), REGISTRATION_VERSION)
    heartbeat = BrokerHeartbeatRequest(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        current_metadata_offset=request.current_metadata_offset,
        want_fence=request.want_fence,
        want_shut_down=request.want_shut_down,
    )
    return Outgoing(heartbeat, HEARTBEAT_VERSION)


def _registration(
    request: RegisterBrokerRequest, protocols: Mapping[str, int]
) -> registration.BrokerRegistrationRequest:
    return registration.BrokerRegistrationRequest(
        broker_id=request.broker_id,
        cluster_id=request.cluster_id,
        incarnation_id=request.incarnation_id,
        listeners=[
            registration.Listener(
                name=name, host=host, port=port, security_protocol=protocols.get(name, 0)
            )
            for name, host, port in request.endpoints
        ],
        rack=request.rack,
        log_dirs=request.log_dirs,
        previous_broker_epoch=request.previous_broker_epoch,
    )


def lifecycle_response(answer: Message) -> LifecycleResponse:
    if isinstance(answer, BrokerRegistrationResponse):
        return RegisterBrokerResponse(error_of(answer.error_code), answer.broker_epoch)
    assert isinstance(answer, BrokerHeartbeatResponse), answer
    return HeartbeatResponse(
        error_of(answer.error_code),
        is_caught_up=answer.is_caught_up,
        is_fenced=answer.is_fenced,
        should_shut_down=answer.should_shut_down,
    )


def not_answered(request: LifecycleRequest) -> LifecycleResponse:
    """For the lifecycle no answer is a refusal: it tries again later."""
    if isinstance(request, RegisterBrokerRequest):
        return RegisterBrokerResponse(Error.BROKER_NOT_AVAILABLE)
    return HeartbeatResponse(Error.BROKER_NOT_AVAILABLE)


# ---- in-sync sets


def alter_partition_message(request: AlterPartitionRequest) -> Outgoing:
    topics: dict[bytes, list[alter.PartitionData]] = {}
    for proposal in request.proposals:
        topics.setdefault(proposal.partition.topic_id, []).append(_proposal(proposal))
    message = alter.AlterPartitionRequest(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        topics=[
            alter.TopicData(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in topics.items()
        ],
    )
    return Outgoing(message, ALTER_PARTITION_VERSION)


def _proposal(proposal: IsrProposal) -> alter.PartitionData:
    return alter.PartitionData(
        partition_index=proposal.partition.partition,
        leader_epoch=proposal.leader_epoch,
        new_isr_with_epochs=[
            alter.BrokerState(broker_id=member.broker_id, broker_epoch=member.broker_epoch)
            for member in proposal.isr
        ],
        leader_recovery_state=proposal.leader_recovery_state,
        partition_epoch=proposal.partition_epoch,
    )


def alter_partition_response(answer: Message) -> AlterPartitionResponse:
    assert isinstance(answer, AlterPartitionAnswer), answer
    results = tuple(
        IsrResult(
            PartitionId(topic.topic_id, partition.partition_index),
            error_of(partition.error_code),
            leader=partition.leader_id,
            leader_epoch=partition.leader_epoch,
            isr=tuple(partition.isr),
            leader_recovery_state=partition.leader_recovery_state,
            partition_epoch=partition.partition_epoch,
        )
        for topic in answer.topics
        for partition in topic.partitions
    )
    return AlterPartitionResponse(error_of(answer.error_code), results)


# ---- forwarded requests


def was_not_controller(answer: Message) -> bool:
    """True if a node refused because it is not the active controller, and did nothing at all.

    The code stands at the top of a response or in each item. When only some items have it, the
    others were performed: then the client has to see them, and asks again for the rest.
    """
    codes = tuple(_error_codes(answer))
    if not codes:
        return False
    if getattr(answer, "error_code", Error.NONE) == Error.NOT_CONTROLLER:
        return True
    items = codes[1:] if hasattr(answer, "error_code") else codes
    return bool(items) and all(code == Error.NOT_CONTROLLER for code in items)


def _error_codes(struct: Struct) -> Iterator[int]:
    """Every `error_code` in a message; its own comes first."""
    own = getattr(struct, "error_code", None)
    if own is not None:
        yield own
    for row in type(struct).__fields__:
        if row.is_array and isinstance(row.kind, type):
            for item in getattr(struct, row.name) or ():
                yield from _error_codes(item)
