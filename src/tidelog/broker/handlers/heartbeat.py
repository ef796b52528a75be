"""Heartbeat (API 12, v0–4): a member of a classic group is alive, and learns of rebalances."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.coordination.pending_call import PendingCall
from tidelog.core.errors import Error
from tidelog.core.groups.requests import Heartbeat
from tidelog.core.groups.requests import HeartbeatResponse as Heard
from tidelog.wire.protocol.schemas.heartbeat_request import HeartbeatRequest
from tidelog.wire.protocol.schemas.heartbeat_response import HeartbeatResponse

if TYPE_CHECKING:
    from tidelog.broker.groups.group_calls import GroupCalls
    from tidelog.rpc import Call

ALIVE = (Error.NONE, Error.REBALANCE_IN_PROGRESS)


def handle(groups: GroupCalls, call: Call) -> None:
    request = call.request
    assert isinstance(request, HeartbeatRequest), request
    groups.absences.expect(call)
    asked = Heartbeat(
        request.group_id, request.generation_id, request.member_id, request.group_instance_id
    )
    token = PendingCall(call, partial(heard, groups, call, request), refused)
    groups.ask_for_member(request.group_id, asked, token)


def heard(
    groups: GroupCalls, call: Call, request: HeartbeatRequest, response: Heard
) -> HeartbeatResponse:
    if response.error in ALIVE:
        groups.absences.heard(call, request.group_id, request.member_id)
    return HeartbeatResponse(error_code=response.error)


def refused(error: Error) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=error)
