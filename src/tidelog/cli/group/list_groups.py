"""`tidelog group list`"""

from typing import Any

import click

from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.lazy import shared_options, table_option
from tidelog.cli.tables import Column, show
from tidelog.client import Client
from tidelog.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from tidelog.survey.group_list import rows_of

COLUMNS = (
    Column("GROUP", "group"),
    Column("TYPE", "type"),
    Column("STATE", "state"),
    Column("MEMBERS", "members"),
    Column("COORDINATOR", "coordinator"),
    Column("LAG", "lag"),
    Column("PROTOCOL", "protocol_type", wide=True),
)


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
