"""`tidelog acl list`"""

from typing import Any

import click

from tidelog.cli.acl.options import filter_of, resource_options, row_of
from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.lazy import shared_options, table_option
from tidelog.cli.tables import Column, show
from tidelog.client import Client
from tidelog.client.access_admin import AccessAdmin
from tidelog.core.security.acls import Acl

COLUMNS = (
    Column("PRINCIPAL", "principal"),
    Column("PERMISSION", "permission"),
    Column("OPERATION", "operation"),
    Column("RESOURCE", "resource"),
    Column("NAME", "name"),
    Column("PATTERN", "pattern", wide=True),
    Column("HOST", "host"),
)


@click.command(name="list")
@resource_options
@asks_cluster
@table_option
@shared_options
def command(*, asking: Asking, output: str, **given: Any) -> None:
    """List access rules, all of them or those of somebody or something.

    \b
    Examples:
      tidelog acl list
      tidelog acl list --user alice -o json
    """
    wanted = filter_of(given)

    async def look(client: Client) -> list[Acl]:
        return await AccessAdmin(client).acls(wanted)

    rows = [row_of(acl) for acl in sorted(asking.run(look))]
    if not rows and output in ("text", "wide"):
        click.echo("no rules; only super users may do anything", err=True)
    show(output, rows, COLUMNS, rows)
