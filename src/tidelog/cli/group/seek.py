"""`tidelog group seek`"""

import time
from collections.abc import Sequence
from typing import Any

import click

from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.failure import CommandError
from tidelog.cli.group.survey import named_group
from tidelog.cli.group.targets import Move, Target, Toward, parse_target, parse_topics, settle
from tidelog.cli.lazy import shared_options, table_option
from tidelog.cli.output import plural
from tidelog.cli.tables import Column, show
from tidelog.cli.topic.describe import named_topic
from tidelog.client import Client, KafkaError
from tidelog.client.groups import Committed, GroupAdmin, GroupView
from tidelog.client.offsets import EARLIEST, LATEST, NOTHING, find_offset
from tidelog.core.errors import Error

COLUMNS = (
    Column("PARTITION", "partition"),
    Column("FROM", "from"),
    Column("TO", "to"),
    Column("DIFFERENCE", "difference"),
    Column("NOTE", "note"),
)
WOULD_OVERWRITE = "would commit over it"
HAS_MEMBERS = (Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION, Error.REBALANCE_IN_PROGRESS)


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
        admin = GroupAdmin(client)
        group = await named_group(client, name)
        refuse_members(group, WOULD_OVERWRITE)
        committed = await admin.committed(name, coordinator=group.coordinator)
        moves = await plan(client, target, chosen, committed)
        if doing and moves:
            await move(admin, name, moves)
        return moves

    moves = asking.run(work)
    tell(name, moves, done=doing, output=given["output"])


def refuse_members(group: GroupView, reason: str) -> None:
    if not group.members:
        return
    name = group.group_id
    listed = ", ".join(f"{each.client_id} at {each.host}" for each in group.members)
    raise CommandError(
        f"group {name} has {plural(len(group.members), 'member')}",
        why=f"{listed} {reason}: stop them first",
        advice=f"tidelog group describe {name}",
    )


async def plan(
    client: Client,
    target: Target,
    chosen: dict[str, list[int] | None],
    committed: dict[tuple[str, int], Committed],
) -> list[Move]:
    wanted = await partitions_of(client, chosen) if chosen else sorted(committed)
    return [
        await move_of(client, topic, index, target, committed.get((topic, index)))
        for topic, index in wanted
    ]


async def partitions_of(
    client: Client, chosen: dict[str, list[int] | None]
) -> list[tuple[str, int]]:
    found = []
    for name, indexes in chosen.items():
        known = [each.partition for each in (await named_topic(client, name)).partitions]
        for index in known if indexes is None else indexes:
            if index not in known:
                raise CommandError(
                    f"{name} has no partition {index}",
                    why=f"it has the partitions 0 to {len(known) - 1}",
                    advice=f"tidelog topic describe {name}",
                )
            found.append((name, index))
    return found


async def move_of(
    client: Client, topic: str, index: int, target: Target, known: Committed | None
) -> Move:
    start = (await find_offset(client, topic, index, EARLIEST)).offset
    end = (await find_offset(client, topic, index, LATEST)).offset
    committed = known.offset if known is not None else None
    note = ""
    match target.toward:
        case Toward.EARLIEST:
            wanted = start
        case Toward.LATEST:
            wanted = end
        case Toward.OFFSET:
            wanted = target.value
        case Toward.SHIFT:
            wanted = (start if committed is None else committed) + target.value
            note = "nothing committed: from the start" if committed is None else ""
        case Toward.TIME:
            found = (await find_offset(client, topic, index, target.value)).offset
            wanted = end if found == NOTHING else found
            note = "nothing since: the end" if found == NOTHING else ""
    to, changed = settle(wanted, start, end)
    return Move(topic, index, committed, to, changed or note)


async def move(admin: GroupAdmin, name: str, moves: Sequence[Move]) -> None:
    try:
        await admin.move(name, {(each.topic, each.partition): each.to for each in moves})
    except KafkaError as error:
        if error.error not in HAS_MEMBERS:
            raise
        refuse_members(await admin.describe(name), WOULD_OVERWRITE)
        raise


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
