"""`tidelog group list`"""

import asyncio
from typing import Any, NamedTuple

import click

from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.lazy import shared_options, table_option
from tidelog.cli.tables import Column, show
from tidelog.client import Client, KafkaError
from tidelog.client.groups import Committed, GroupAdmin, ListedGroup, total_lag
from tidelog.client.offsets import READ_COMMITTED, READ_UNCOMMITTED, end_offsets
from tidelog.core.errors import Error

COLUMNS = (
    Column("GROUP", "group"),
    Column("TYPE", "type"),
    Column("STATE", "state"),
    Column("MEMBERS", "members"),
    Column("COORDINATOR", "coordinator"),
    Column("LAG", "lag"),
    Column("PROTOCOL", "protocol_type", wide=True),
)
AT_ONCE = 16
"""Groups that are asked about at the same time."""


class Found(NamedTuple):
    listed: ListedGroup
    members: int
    committed: dict[tuple[str, int], Committed]


@click.command(name="list")
@click.option("--read-committed", is_flag=True, help="Lag up to the last stable offset.")
@asks_cluster
@table_option
@shared_options
def command(*, asking: Asking, read_committed: bool, output: str) -> None:
    """List the groups of all coordinators.

    \b
    Examples:
      tidelog group list
      tidelog group list -o json
    """
    isolation = READ_COMMITTED if read_committed else READ_UNCOMMITTED

    async def look(client: Client) -> list[dict[str, Any]]:
        return await rows_of(client, isolation)

    rows = asking.run(look)
    if not rows and output in ("text", "wide"):
        click.echo("no groups; be one: tidelog consume orders -g billing", err=True)
    show(output, rows, COLUMNS, rows)


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
