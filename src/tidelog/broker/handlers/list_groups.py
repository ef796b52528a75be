"""ListGroups (API 16, v0–5): the groups that this broker coordinates. Clients ask every broker.

A list that left out the groups of a coordinator that still loads would be wrong without looking
wrong, so it is refused as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.coordination.pending_call import Gathering
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.groups.requests import ListGroups
from tidelog.core.groups.requests import ListGroupsResponse as Listed
from tidelog.wire.protocol.schemas.list_groups_request import ListGroupsRequest
from tidelog.wire.protocol.schemas.list_groups_response import ListedGroup, ListGroupsResponse

if TYPE_CHECKING:
    from tidelog.broker.groups.group_calls import GroupCalls
    from tidelog.rpc import Call


def handle(groups: GroupCalls, call: Call) -> None:
    request = call.request
    assert isinstance(request, ListGroupsRequest), request
    states = {each.lower() for each in request.states_filter}
    types = {each.lower() for each in request.types_filter}

    def finish(lists: list[Listed]) -> None:
        errors = [each.error for each in lists if each.error is not NO_ERROR]
        groups = [
            ListedGroup(
                group_id=each.group_id,
                protocol_type=each.protocol_type,
                group_state=each.state,
                group_type=each.group_type,
            )
            for listed in lists
            for each in listed.groups
            if (not states or each.state.lower() in states)
            and (not types or each.group_type.lower() in types)
        ]
        if errors:
            call.answer(ListGroupsResponse(error_code=errors[0]))
        else:
            call.answer(ListGroupsResponse(groups=groups))

    shards = groups.coordination.groups
    indexes = shards.indexes()
    gathering = Gathering(len(indexes), finish)
    for position, index in enumerate(indexes):
        shards.request(index, ListGroups(), gathering.part(position, as_it_is, nothing_because))


def as_it_is(listed: Listed) -> Listed:
    return listed


def nothing_because(error: Error) -> Listed:
    """Who has resigned has no groups: somebody else lists them."""
    return Listed(NO_ERROR if error is Error.NOT_COORDINATOR else error)
