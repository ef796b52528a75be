"""`tidelog group seek`"""

import time
from collections.abc import Sequence
from typing import Any

import click

from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.lazy import shared_options, table_option
from tidelog.cli.output import plural
from tidelog.cli.tables import Column, show
from tidelog.client import Client
from tidelog.survey.group_seek import seek
from tidelog.survey.seek_targets import Move, parse_target, parse_topics

COLUMNS = (
    Column("PARTITION", "partition"),
    Column("FROM", "from"),
    Column("TO", "to"),
    Column("DIFFERENCE", "difference"),
    Column("NOTE", "note"),
)


@click.command(name="seek")
@click.argument("group")
@click.option(
    "--to",
    "text",
    required=True,
    metavar="TARGET",
    help="earliest, latest, 1041, +5 or -5 (records), -1h (ago), 2026-01-31T10:00.",
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:P,…]",
    help="Only these; all that the group has committed if not given.",
)
@click.option("-y", "--yes", is_flag=True, help="Do it.")
@click.option("--dry-run", is_flag=True, help="Only the plan, as without --yes.")
@asks_cluster
@table_option
@shared_options
def command(asking: Asking, **given: Any) -> None:
    """Move what a group has committed, while nobody is a member of it.

    \b
    Examples:
      tidelog group seek billing --to earliest
      tidelog group seek billing --to -1h --topic orders --yes
      tidelog group seek billing --to 1041 --topic orders:0 --yes

    Prints the plan, and does nothing without --yes.
    """
    name, doing = given["group"], given["yes"] and not given["dry_run"]
    target = parse_target(given["text"], int(time.time() * 1000))
    chosen = parse_topics(given["topics"])

    async def work(client: Client) -> list[Move]:
        return await seek(client, name, target, chosen, doing=doing)

    moves = asking.run(work)
    tell(name, moves, done=doing, output=given["output"])


def tell(name: str, moves: Sequence[Move], *, done: bool, output: str) -> None:
    rows = [
        {
            "partition": each.name,
            "from": each.committed,
            "to": each.to,
            "difference": None if each.difference is None else f"{each.difference:+d}",
            "note": each.note or None,
        }
        for each in moves
    ]
    document = {"group": name, "moved": done and bool(moves), "partitions": rows}
    for row, each in zip(rows, moves, strict=True):
        if output == "json":
            row["difference"] = each.difference
        elif row["note"] is None:
            row["note"] = ""
    if not moves:
        click.echo(f"group {name} has committed nothing: name a --topic", err=True)
    show(output, document, COLUMNS, rows)
    if moves and not done:
        click.echo("nothing is moved yet: the same with --yes does it", err=True)
    elif moves:
        click.echo(f"{plural(len(moves), 'partition')} moved", err=True)
