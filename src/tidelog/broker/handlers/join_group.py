"""JoinGroup (API 11, v0–9): become a member of a classic group. Parked until all have joined."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.groups.absences import WaitingCall
from tidelog.broker.groups.group_calls import client_name
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.groups.requests import JoinGroup, JoinProtocol, JoinResponse
from tidelog.wire.protocol.schemas.join_group_request import JoinGroupRequest
from tidelog.wire.protocol.schemas.join_group_response import (
    JoinGroupResponse,
    JoinGroupResponseMember,
)

if TYPE_CHECKING:
    from tidelog.broker.groups.group_calls import GroupCalls
    from tidelog.rpc import Call

NOT_GIVEN = -1
FIRST_WITH_KNOWN_IDS = 4
"""KIP-394: a member is given an id before it may join."""
FIRST_WITH_NO_PROTOCOL = 7
FIRST_WITH_SKIPPED_ASSIGNMENT = 9


def handle(groups: GroupCalls, call: Call) -> None:
    request = call.request
    assert isinstance(request, JoinGroupRequest), request
    token = WaitingCall(
        groups.absences,
        call,
        request.group_id,
        partial(joined, groups, call, request),
        partial(refused, call, request),
    )
    if request.member_id:
        groups.absences.heard_again(call, request.group_id, request.member_id)
    groups.ask_for_member(request.group_id, asked(groups, call, request), token)


def asked(groups: GroupCalls, call: Call, request: JoinGroupRequest) -> JoinGroup:
    rebalance_timeout_ms = request.rebalance_timeout_ms
    return JoinGroup(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        client_name(call),
        request.session_timeout_ms,
        # v0 knows one timeout for both
        request.session_timeout_ms if rebalance_timeout_ms == NOT_GIVEN else rebalance_timeout_ms,
        request.protocol_type,
        tuple(JoinProtocol(each.name, each.metadata) for each in request.protocols),
        groups.fresh_member_id(request.group_instance_id or call.client_id),
        needs_known_member_id=call.version >= FIRST_WITH_KNOWN_IDS,
        may_skip_assignment=call.version >= FIRST_WITH_SKIPPED_ASSIGNMENT,
    )


def joined(
    groups: GroupCalls, call: Call, request: JoinGroupRequest, response: JoinResponse
) -> JoinGroupResponse:
    if response.error in (NO_ERROR, Error.MEMBER_ID_REQUIRED):
        groups.absences.heard(call, request.group_id, response.member_id)
    protocol = response.protocol
    if protocol is None and call.version < FIRST_WITH_NO_PROTOCOL:
        protocol = ""
    return JoinGroupResponse(
        error_code=response.error,
        generation_id=response.generation,
        protocol_type=response.protocol_type,
        protocol_name=protocol,
        leader=response.leader,
        skip_assignment=response.skip_assignment,
        member_id=response.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                metadata=each.metadata,
            )
            for each in response.members
        ],
    )


def refused(call: Call, request: JoinGroupRequest, error: Error) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error,
        member_id=request.member_id,
        protocol_name=None if call.version >= FIRST_WITH_NO_PROTOCOL else "",
    )
