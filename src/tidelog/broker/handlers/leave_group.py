"""LeaveGroup (API 13, v0–5): members leave, or an operator removes them (v3).

Every leaver is named in the answer by both of its names: Java fails on an answer that leaves one
out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.coordination.pending_call import PendingCall
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.groups.requests import LeaveGroup, Leaver, LeaveResponse
from tidelog.wire.protocol.schemas.leave_group_request import LeaveGroupRequest
from tidelog.wire.protocol.schemas.leave_group_response import LeaveGroupResponse, MemberResponse

if TYPE_CHECKING:
    from tidelog.broker.groups.group_calls import GroupCalls
    from tidelog.rpc import Call

FIRST_WITH_MANY = 3


def handle(groups: GroupCalls, call: Call) -> None:
    request = call.request
    assert isinstance(request, LeaveGroupRequest), request
    asked = LeaveGroup(request.group_id, leavers_of(request, call.version))
    if call.version < FIRST_WITH_MANY:
        token = PendingCall(call, partial(one_left, groups, asked), one_refused)
    else:
        token = PendingCall(call, partial(left, groups, asked), partial(refused, asked.members))
    groups.ask_for_member(request.group_id, asked, token)


def leavers_of(request: LeaveGroupRequest, version: int) -> tuple[Leaver, ...]:
    if version < FIRST_WITH_MANY:
        return (Leaver(request.member_id, None),)
    return tuple(
        Leaver(each.member_id, each.group_instance_id, each.reason) for each in request.members
    )


def one_left(groups: GroupCalls, asked: LeaveGroup, response: LeaveResponse) -> LeaveGroupResponse:
    if response.error is not NO_ERROR:
        return one_refused(response.error)
    forget(groups, asked, response)
    return LeaveGroupResponse(error_code=response.errors[0])


def one_refused(error: Error) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=error)


def left(groups: GroupCalls, asked: LeaveGroup, response: LeaveResponse) -> LeaveGroupResponse:
    if response.error is not NO_ERROR:
        return refused(asked.members, response.error)
    forget(groups, asked, response)
    members = [
        member_response(leaver, error)
        for leaver, error in zip(asked.members, response.errors, strict=True)
    ]
    return LeaveGroupResponse(members=members)


def forget(groups: GroupCalls, asked: LeaveGroup, response: LeaveResponse) -> None:
    """Who has left may hang up. One that could not leave is missed as if it had been killed."""
    for leaver, error in zip(asked.members, response.errors, strict=True):
        if error is NO_ERROR:
            groups.absences.forget(asked.group_id, leaver.member_id)


def refused(leavers: Sequence[Leaver], error: Error) -> LeaveGroupResponse:
    return LeaveGroupResponse(
        error_code=error, members=[member_response(each, error) for each in leavers]
    )


def member_response(leaver: Leaver, error: Error) -> MemberResponse:
    return MemberResponse(
        member_id=leaver.member_id, group_instance_id=leaver.instance_id, error_code=error
    )
