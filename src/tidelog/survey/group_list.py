"""All groups of a cluster, and how far behind they are."""

import asyncio
from typing import Any, NamedTuple

from tidelog.client import Client, KafkaError
from tidelog.client.groups import Committed, GroupAdmin, ListedGroup, total_lag
from tidelog.client.offsets import end_offsets
from tidelog.core.errors import Error

AT_ONCE = 16
"""Groups that are asked about at the same time."""


class Found(NamedTuple):
    listed: ListedGroup
    members: int
    committed: dict[tuple[str, int], Committed]


async def rows_of(client: Client, isolation: int) -> list[dict[str, Any]]:
    gate = asyncio.Semaphore(AT_ONCE)

    async def look_at(listed: ListedGroup) -> Found | None:
        async with gate:
            return await look_at_one(client, listed)

    asked = [look_at(each) for each in await GroupAdmin(client).list_groups()]
    found = [each for each in await asyncio.gather(*asked) if each is not None]
    wanted = {where for each in found for where in each.committed}
    ends = await end_offsets(client, wanted, isolation=isolation)
    return [
        {
            "group": each.listed.group_id,
            "type": each.listed.kind or None,
            "state": each.listed.state,
            "members": each.members,
            "coordinator": each.listed.coordinator,
            "lag": total_lag(each.committed, ends),
            "protocol_type": each.listed.protocol_type or None,
        }
        for each in found
    ]


async def look_at_one(client: Client, listed: ListedGroup) -> Found | None:
    """None if it was deleted since it was listed."""
    admin = GroupAdmin(client)
    try:
        group = await admin.describe(listed.group_id, coordinator=listed.coordinator)
        committed = await admin.committed(listed.group_id, coordinator=group.coordinator)
    except KafkaError as error:
        if error.error != Error.GROUP_ID_NOT_FOUND:
            raise
        return None
    return Found(listed._replace(state=group.state), len(group.members), committed)
