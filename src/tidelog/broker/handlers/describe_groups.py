"""DescribeGroups (API 15, v0–6): classic groups and their members.

A group that is not there is Dead; since v6 that is an error (KIP-1043).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.answers import authorized_operations
from tidelog.broker.coordination.pending_call import Gathering
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.groups.requests import DescribedGroup as Described
from tidelog.core.groups.requests import DescribeGroup
from tidelog.wire.protocol.schemas.describe_groups_request import DescribeGroupsRequest
from tidelog.wire.protocol.schemas.describe_groups_response import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.groups.group_calls import GroupCalls
    from tidelog.rpc import Call

DEAD = "Dead"
FIRST_WITH_NOT_FOUND = 6


def handle(groups: GroupCalls, call: Call) -> None:
    request = call.request
    assert isinstance(request, DescribeGroupsRequest), request

    def finish(groups: list[DescribedGroup]) -> None:
        call.answer(DescribeGroupsResponse(groups=groups))

    operations = authorized_operations.on_group(asked=request.include_authorized_operations)
    gathering = Gathering(len(request.groups), finish)
    for position, group_id in enumerate(request.groups):
        token = gathering.part(
            position,
            partial(described, group_id, call.version, operations),
            partial(refused, group_id),
        )
        groups.ask(group_id, DescribeGroup(group_id), token)


def described(group_id: str, version: int, operations: int, group: Described) -> DescribedGroup:
    missing = group.error is Error.GROUP_ID_NOT_FOUND or (
        group.error is NO_ERROR and group.state == DEAD
    )
    if missing:
        told = version >= FIRST_WITH_NOT_FOUND
        return DescribedGroup(
            group_id=group_id,
            group_state=DEAD,
            error_code=Error.GROUP_ID_NOT_FOUND if told else Error.NONE,
            error_message=f"there is no classic group {group_id!r} here" if told else None,
            authorized_operations=operations,
        )
    return DescribedGroup(
        error_code=group.error,
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=[
            DescribedGroupMember(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                client_id=each.client.client_id,
                client_host=each.client.client_host,
                member_metadata=each.metadata,
                member_assignment=each.assignment,
            )
            for each in group.members
        ],
        authorized_operations=operations,
    )


def refused(group_id: str, error: Error) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error)
