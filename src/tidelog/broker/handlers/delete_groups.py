"""DeleteGroups (API 42, v0–2): groups without members are forgotten, with their offsets."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.coordination.pending_call import Gathering
from tidelog.core.errors import Error
from tidelog.core.groups.requests import DeleteGroup, DeleteGroupResponse
from tidelog.wire.protocol.schemas.delete_groups_request import DeleteGroupsRequest
from tidelog.wire.protocol.schemas.delete_groups_response import (
    DeletableGroupResult,
    DeleteGroupsResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.groups.group_calls import GroupCalls
    from tidelog.rpc import Call


def handle(groups: GroupCalls, call: Call) -> None:
    request = call.request
    assert isinstance(request, DeleteGroupsRequest), request

    def finish(results: list[DeletableGroupResult]) -> None:
        call.answer(DeleteGroupsResponse(results=results))

    gathering = Gathering(len(request.groups_names), finish)
    for position, group_id in enumerate(request.groups_names):
        token = gathering.part(position, partial(deleted, group_id), partial(refused, group_id))
        groups.ask(group_id, DeleteGroup(group_id), token)


def deleted(group_id: str, response: DeleteGroupResponse) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=response.error)


def refused(group_id: str, error: Error) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=error)
