"""`tidelog leaders`: who leads which partition."""

from typing import Any

import click

from tidelog.cli.asking import Asking, asks_cluster, confirm, parse_partition
from tidelog.cli.failure import ERROR, OK, USAGE, CommandError
from tidelog.cli.lazy import Lazy, LazyGroup, shared_options, table_option
from tidelog.cli.output import plural
from tidelog.cli.tables import Column, show
from tidelog.client import Admin, Client, PartitionView
from tidelog.client.admin import PREFERRED, UNCLEAN, ElectionResult
from tidelog.client.errors import error_name
from tidelog.core.errors import Error
from tidelog.survey.leader_balance import obstacle, plan

COMMANDS = {
    "elect": Lazy("tidelog.cli.leaders", "Elect leaders of partitions.", "elect"),
    "balance": Lazy(
        "tidelog.cli.leaders", "Give leaderships back to preferred replicas.", "balance"
    ),
}
RESULT_COLUMNS = (
    Column("PARTITION", "partition"),
    Column("RESULT", "result"),
    Column("MESSAGE", "message", wide=True),
)
PLAN_COLUMNS = (
    Column("PARTITION", "partition"),
    Column("LEADER", "leader"),
    Column("PREFERRED", "preferred"),
    Column("MOVE", "move"),
)


@click.group(cls=LazyGroup, lazy=COMMANDS)
def group() -> None:
    """Elect leaders, and bring leaderships back to where they belong.

    \b
    Examples:
      tidelog leaders elect orders-0
      tidelog leaders balance --dry-run
    """


@click.command(name="elect")
@click.argument("partitions", nargs=-1, metavar="TOPIC-PARTITION…")
@click.option("--all", "every", is_flag=True, help="All partitions.")
@click.option("--unclean", is_flag=True, help="From anywhere, if nobody is left: may lose records.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before an unclean election.")
@asks_cluster
@table_option
@shared_options
@click.pass_context
def elect(context: click.Context, /, *, asking: Asking, **given: Any) -> None:
    """Make the preferred replica lead, or anybody if --unclean.

    \b
    Examples:
      tidelog leaders elect orders-0 orders-1
      tidelog leaders elect orders-0 --unclean --yes
    """
    names, unclean = given["partitions"], given["unclean"]
    if bool(names) == given["every"]:
        raise CommandError(
            "which partitions is not clear",
            why="name them, or use --all, not both",
            advice="tidelog leaders elect orders-0",
            code=USAGE,
        )
    chosen = None if given["every"] else [parse_partition(name) for name in names]
    if unclean:
        advice = f"tidelog leaders elect {' '.join(names) or '--all'} --unclean --yes"
        confirm(
            "Records that only others have will be lost. Go on?", yes=given["yes"], advice=advice
        )

    async def ask(client: Client) -> list[ElectionResult]:
        return await Admin(client).elect_leaders(chosen, kind=UNCLEAN if unclean else PREFERRED)

    results = asking.run(ask)
    rows = [
        {
            "partition": f"{each.topic}-{each.partition}",
            "result": result_words(each),
            "message": each.message,
        }
        for each in results
    ]
    show(given["output"], rows, RESULT_COLUMNS, rows, head="" if rows else "nothing to elect")
    context.exit(ERROR if any(failed(each) for each in results) else OK)


def result_words(result: ElectionResult) -> str:
    if result.elected:
        return "elected"
    if not failed(result):
        return "not needed"
    return f"{error_name(result.error)} ({result.error})"


def failed(result: ElectionResult) -> bool:
    return result.error not in (Error.NONE, Error.ELECTION_NOT_NEEDED)


@click.command(name="balance")
@click.option("--dry-run", is_flag=True, help="Only say what would move.")
@asks_cluster
@table_option
@shared_options
@click.pass_context
def balance(context: click.Context, /, *, asking: Asking, dry_run: bool, output: str) -> None:
    """Give every leadership back to the preferred replica, where that is in sync.

    \b
    Examples:
      tidelog leaders balance --dry-run
      tidelog leaders balance
    """

    async def work(client: Client) -> tuple[list[dict[str, Any]], int]:
        found = plan(await client.view())
        rows = [plan_row(each) for each in found.away]
        if dry_run or not found.moving:
            return rows, 0
        results = await Admin(client).elect_leaders(found.moving)
        return rows, sum(failed(each) for each in results)

    rows, failures = asking.run(work)
    moving = sum(row["move"] == "yes" for row in rows)
    done = "would move" if dry_run else "moved"
    head = f"{plural(moving - failures, 'leadership')} {done}" if rows else "all leaders are home"
    show(output, rows, PLAN_COLUMNS, rows, head=head)
    context.exit(ERROR if failures else OK)


def plan_row(partition: PartitionView) -> dict[str, Any]:
    reason = obstacle(partition)
    return {
        "partition": f"{partition.topic}-{partition.partition}",
        "leader": partition.leader,
        "preferred": partition.preferred,
        "move": "yes" if reason is None else f"no: {reason}",
    }
