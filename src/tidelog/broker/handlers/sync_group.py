"""SyncGroup (API 14, v0–5): the leader of a classic group sends the assignment to all members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.groups.absences import WaitingCall
from tidelog.core.errors import Error
from tidelog.core.groups.requests import SyncGroup, SyncResponse
from tidelog.wire.protocol.schemas.sync_group_request import SyncGroupRequest
from tidelog.wire.protocol.schemas.sync_group_response import SyncGroupResponse

if TYPE_CHECKING:
    from tidelog.broker.groups.group_calls import GroupCalls
    from tidelog.rpc import Call

FIRST_WITH_PROTOCOL = 5


def handle(groups: GroupCalls, call: Call) -> None:
    request = call.request
    assert isinstance(request, SyncGroupRequest), request
    unnamed = request.protocol_type is None or request.protocol_name is None
    if unnamed and call.version >= FIRST_WITH_PROTOCOL:
        call.answer(refused(Error.INCONSISTENT_GROUP_PROTOCOL))
        return
    asked = SyncGroup(
        request.group_id,
        request.generation_id,
        request.member_id,
        request.group_instance_id,
        request.protocol_type,
        request.protocol_name,
        tuple((each.member_id, each.assignment) for each in request.assignments),
    )
    token = WaitingCall(groups.absences, call, request.group_id, synced, refused)
    groups.absences.heard_again(call, request.group_id, request.member_id)
    groups.ask_for_member(request.group_id, asked, token)


def synced(response: SyncResponse) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=response.error,
        protocol_type=response.protocol_type,
        protocol_name=response.protocol,
        assignment=response.assignment,
    )


def refused(error: Error) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error)
