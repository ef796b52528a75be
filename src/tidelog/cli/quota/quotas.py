"""`tidelog quota list` and `tidelog quota set`"""

from typing import Any

import click

from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.failure import USAGE, CommandError
from tidelog.cli.lazy import output_option, shared_options, table_option
from tidelog.cli.output import print_json
from tidelog.cli.tables import Column, show
from tidelog.cli.topic.create import key_values
from tidelog.client import Client
from tidelog.client.access_admin import AccessAdmin, SetQuota
from tidelog.core.security.quota_keys import CLIENT_ID, IP, USER

DEFAULT = "default"
"""Stands for everybody who has no quota of his own."""
COLUMNS = (
    Column("USER", "user"),
    Column("CLIENT-ID", "client_id"),
    Column("ADDRESS", "ip"),
    Column("KEY", "key"),
    Column("VALUE", "value"),
)


@click.command(name="list")
@asks_cluster
@table_option
@shared_options
def command(*, asking: Asking, output: str) -> None:
    """List quotas.

    \b
    Examples:
      tidelog quota list
      tidelog quota list -o json
    """

    async def look(client: Client) -> list[SetQuota]:
        return await AccessAdmin(client).quotas()

    rows = [row_of(quota) for quota in asking.run(look)]
    if not rows and output in ("text", "wide"):
        click.echo("no quotas; nobody is slowed down", err=True)
    show(output, rows, COLUMNS, rows)


def row_of(quota: SetQuota) -> dict[str, Any]:
    names = {kind: DEFAULT if name is None else name for kind, name in quota.entity}
    return {
        "user": names.get(USER),
        "client_id": names.get(CLIENT_ID),
        "ip": names.get(IP),
        "key": quota.key,
        "value": int(quota.value) if quota.value == int(quota.value) else quota.value,
    }


@click.command(name="set")
@click.argument("limits", metavar="[KEY=VALUE]...", nargs=-1)
@click.option("--user", metavar="NAME", help="A user, or 'default'.")
@click.option("--client-id", metavar="NAME", help="A client id, or 'default'; also with --user.")
@click.option("--ip", metavar="ADDRESS", help="An address, or 'default'.")
@click.option("--remove", "removed", metavar="KEY", multiple=True, help="No limit any more.")
@asks_cluster
@output_option
@shared_options
def set_quotas(
    *,
    asking: Asking,
    limits: tuple[str, ...],
    removed: tuple[str, ...],
    output: str,
    **given: str | None,
) -> None:
    """Set limits: producer_byte_rate, consumer_byte_rate, controller_mutation_rate for users and
    client ids, connection_creation_rate for addresses.

    \b
    Examples:
      tidelog quota set --user alice producer_byte_rate=1048576
      tidelog quota set --user default --client-id loader consumer_byte_rate=5000000
      tidelog quota set --ip 10.0.0.7 connection_creation_rate=5
      tidelog quota set --user alice --remove producer_byte_rate
    """
    kinds = {CLIENT_ID: given["client_id"], IP: given["ip"], USER: given["user"]}
    entity = tuple(
        (kind, None if name == DEFAULT else name)
        for kind, name in kinds.items()
        if name is not None
    )
    changes: dict[str, float | None] = {
        key: number(key, text) for key, text in key_values(limits, option="KEY=VALUE").items()
    }
    changes.update(dict.fromkeys(removed))
    if not entity or not changes:
        raise CommandError(
            "the quota is not complete",
            why="it needs --user, --client-id or --ip, and a limit or --remove",
            advice="tidelog quota set --user alice producer_byte_rate=1048576",
            code=USAGE,
        )

    async def change(client: Client) -> None:
        await AccessAdmin(client).set_quotas(entity, changes)

    asking.run(change)
    if output == "json":
        print_json({"entity": dict(entity), "changes": changes})
        return
    whom = " ".join(f"{kind} {DEFAULT if name is None else name}" for kind, name in entity)
    for key, value in changes.items():
        click.echo(f"{whom}: {key} {'has no limit' if value is None else f'= {value:g}'}")


def number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise CommandError(
            f"wrong value for {key}",
            why=f"{text} is no number",
            advice=f"{key}=1048576",
            code=USAGE,
        ) from None
