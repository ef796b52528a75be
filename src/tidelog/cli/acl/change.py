"""`tidelog acl add` and `tidelog acl remove`"""

from typing import Any

import click

from tidelog.cli.acl.options import (
    OPERATIONS,
    filter_of,
    operation_of,
    resource_of,
    resource_options,
    row_of,
)
from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.failure import USAGE, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import plural, print_json
from tidelog.client import Client
from tidelog.client.access_admin import AccessAdmin
from tidelog.core.security.acls import WILDCARD, Acl, AclFilter, Permission


@click.command(name="add")
@click.option("--allow", multiple=True, type=click.Choice(OPERATIONS), help="What. Repeatable.")
@click.option("--deny", multiple=True, type=click.Choice(OPERATIONS), help="What. Repeatable.")
@resource_options
@asks_cluster
@output_option
@shared_options
def command(*, asking: Asking, output: str, **given: Any) -> None:
    """Allow or deny a user operations on a topic, group, transactional id or the cluster.

    \b
    Examples:
      tidelog acl add --user alice --allow read --allow write --topic orders
      tidelog acl add --user alice --allow read --group 'readers-*'
      tidelog acl add --user '*' --deny delete --topic orders --host 10.0.0.0/8
    """
    acls = new_acls(given)

    async def add(client: Client) -> None:
        await AccessAdmin(client).add_acls(acls)

    asking.run(add)
    rows = [row_of(acl) for acl in acls]
    if output == "json":
        print_json(rows)
        return
    for row in rows:
        told = "may" if row["permission"] == "allow" else "may not"
        click.echo(
            f"{row['principal']} {told} {row['operation']} {row['resource']} {row['name']}"
            f" from {row['host']}"
        )


def new_acls(given: dict[str, Any]) -> list[Acl]:
    resource = resource_of(given)
    wanted = [(Permission.ALLOW, each) for each in given["allow"]]
    wanted += [(Permission.DENY, each) for each in given["deny"]]
    if resource is None or given["user"] is None or not wanted:
        raise CommandError(
            "the rule is not complete",
            why="it needs --user, a resource, and --allow or --deny with an operation",
            advice="tidelog acl add --user alice --allow read --topic orders",
            code=USAGE,
        )
    host = given["host"] or WILDCARD
    return [
        Acl(
            resource.kind,
            resource.name,
            resource.pattern,
            f"User:{given['user']}",
            host,
            operation_of(operation),
            permission,
        )
        for permission, operation in wanted
    ]


@click.command(name="remove")
@click.option("--all", "everything", is_flag=True, help="All rules of the cluster.")
@resource_options
@asks_cluster
@output_option
@shared_options
def remove(*, asking: Asking, output: str, everything: bool, **given: Any) -> None:
    """Remove every rule that fits.

    \b
    Examples:
      tidelog acl remove --user alice
      tidelog acl remove --topic orders
    """
    wanted = filter_of(given)
    if wanted == AclFilter() and not everything:
        raise CommandError(
            "which rules is not clear",
            why="nothing was named, which would mean all of them",
            advice="tidelog acl remove --user alice, or --all",
            code=USAGE,
        )

    async def take_away(client: Client) -> int:
        return await AccessAdmin(client).remove_acls(wanted)

    count = asking.run(take_away)
    if output == "json":
        print_json({"removed": count})
        return
    click.echo(f"{plural(count, 'rule')} removed")
