"""LeaveGroup (API 13, v0–5): members go, or an operator sends them away (v3).

Every leaver is named in the answer by both of its names: Java fails on an answer that leaves one
out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.group_calls import ask_members
from tidelog.broker.pending_call import PendingCall
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.groups.requests import LeaveGroup, Leaver, LeaveResponse
from tidelog.wire.protocol.schemas.leave_group_request import LeaveGroupRequest
from tidelog.wire.protocol.schemas.leave_group_response import LeaveGroupResponse, MemberResponse

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker
    from tidelog.rpc import Call

FIRST_WITH_MANY = 3


def handle(broker: Broker, call: Call) -> None:
    request = call.request
    assert isinstance(request, LeaveGroupRequest), request
    if call.version < FIRST_WITH_MANY:
        leavers: tuple[Leaver, ...] = (Leaver(request.member_id, None),)
        token = PendingCall(call, one_left, one_refused)
    else:
        leavers = tuple(
            Leaver(each.member_id, each.group_instance_id, each.reason) for each in request.members
        )
        token = PendingCall(call, partial(left, leavers), partial(refused, leavers))
    for leaver in leavers:
        broker.absences.forget(request.group_id, leaver.member_id)
    ask_members(broker, request.group_id, LeaveGroup(request.group_id, leavers), token)


def one_left(response: LeaveResponse) -> LeaveGroupResponse:
    error = response.error
    if error is NO_ERROR and response.errors:
        error = response.errors[0]
    return LeaveGroupResponse(error_code=error)


def one_refused(error: Error) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=error)


def left(leavers: Sequence[Leaver], response: LeaveResponse) -> LeaveGroupResponse:
    if response.error is not NO_ERROR:
        return refused(leavers, response.error)
    members = [
        member_response(leaver, error)
        for leaver, error in zip(leavers, response.errors, strict=True)
    ]
    return LeaveGroupResponse(members=members)


def refused(leavers: Sequence[Leaver], error: Error) -> LeaveGroupResponse:
    return LeaveGroupResponse(
        error_code=error, members=[member_response(each, error) for each in leavers]
    )


def member_response(leaver: Leaver, error: Error) -> MemberResponse:
    return MemberResponse(
        member_id=leaver.member_id, group_instance_id=leaver.instance_id, error_code=error
    )
