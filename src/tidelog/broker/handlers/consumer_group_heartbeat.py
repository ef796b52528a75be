"""ConsumerGroupHeartbeat (API 68, v0–1): how a member joins, stays and leaves (KIP-848)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.coordination.pending_call import PendingCall
from tidelog.broker.groups.group_calls import client_name
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.groups.requests import ConsumerHeartbeat, ConsumerHeartbeatResponse
from tidelog.wire.protocol.schemas.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
)
from tidelog.wire.protocol.schemas.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from tidelog.broker.groups.group_calls import GroupCalls
    from tidelog.rpc import Call

FIRST_WITH_OWN_ID = 1
"""KIP-1082: the member makes its id itself."""
JOINING = 0


def handle(groups: GroupCalls, call: Call) -> None:
    request = call.request
    assert isinstance(request, ConsumerGroupHeartbeatRequest), request
    groups.absences.expect(call)
    if call.version >= FIRST_WITH_OWN_ID and not request.member_id:
        message = "member_id is empty: since v1 members make their own ids"
        call.answer(refused(Error.INVALID_REQUEST, message))
        return
    token = PendingCall(call, partial(heard, groups, call, request), refused)
    groups.ask_for_member(request.group_id, asked(groups, call, request), token)


def asked(
    groups: GroupCalls, call: Call, request: ConsumerGroupHeartbeatRequest
) -> ConsumerHeartbeat:
    owned, topics = request.topic_partitions, request.subscribed_topic_names
    return ConsumerHeartbeat(
        request.group_id,
        request.member_id,
        request.member_epoch,
        request.instance_id,
        request.rack_id,
        request.rebalance_timeout_ms,
        client_name(call),
        None if topics is None else tuple(topics),
        request.subscribed_topic_regex,
        request.server_assignor,
        None
        if owned is None
        else tuple(sorted((each.topic_id, tuple(sorted(each.partitions))) for each in owned)),
        groups.fresh_member_id(call.client_id),
    )


def heard(
    groups: GroupCalls,
    call: Call,
    request: ConsumerGroupHeartbeatRequest,
    response: ConsumerHeartbeatResponse,
) -> ConsumerGroupHeartbeatResponse:
    member_id = response.member_id or request.member_id
    if response.error is NO_ERROR:
        if request.member_epoch >= JOINING:
            groups.absences.heard(call, request.group_id, member_id)
        else:
            groups.absences.forget(request.group_id, member_id)
    assignment = None
    if response.assignment is not None:
        assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in response.assignment
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        error_code=response.error,
        error_message=response.message,
        member_id=response.member_id,
        member_epoch=response.member_epoch,
        heartbeat_interval_ms=response.heartbeat_interval_ms,
        assignment=assignment,
    )


def refused(error: Error, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error, error_message=message)
