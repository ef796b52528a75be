"""`tidelog topic delete` and `tidelog topic trim`"""

import click

from tidelog.cli.asking import Asking, asks_cluster, confirm, refused
from tidelog.cli.failure import ERROR, OK, render
from tidelog.cli.lazy import output_option, shared_options, table_option
from tidelog.cli.output import plural, print_json
from tidelog.cli.tables import Column, show
from tidelog.client import Admin, Client, KafkaError
from tidelog.client.offsets import EARLIEST, find_offset, trim
from tidelog.survey.positions import Position, parse_position, resolve
from tidelog.survey.topics import named_topic

TRIM_COLUMNS = (
    Column("P", "partition"),
    Column("LOG-START", "log_start_offset"),
    Column("BEFORE", "before"),
    Column("DELETED", "deleted"),
)


@click.command(name="delete")
@click.argument("names", nargs=-1, required=True, metavar="TOPIC…")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@asks_cluster
@output_option
@shared_options
@click.pass_context
def command(
    context: click.Context,
    *,
    asking: Asking,
    names: tuple[str, ...],
    yes: bool,
    dry_run: bool,
    output: str,
) -> None:
    """Delete topics with all their records.

    \b
    Examples:
      tidelog topic delete orders --yes
      tidelog topic delete orders audit --dry-run
    """
    if not dry_run:
        listed = ", ".join(names)
        advice = f"tidelog topic delete {' '.join(names)} --yes"
        confirm(f"Delete {listed} and every record in it?", yes=yes, advice=advice)

    async def delete(client: Client) -> dict[str, KafkaError | None]:
        results: dict[str, KafkaError | None] = {}
        for name in names:
            try:
                await named_topic(client, name)
                if not dry_run:
                    await Admin(client).delete_topic(name)
                results[name] = None
            except KafkaError as error:
                results[name] = error
        return results

    results = asking.run(delete)
    if output == "json":
        print_json(
            [
                {
                    "topic": name,
                    "deleted": error is None and not dry_run,
                    "error": error.label if error else None,
                }
                for name, error in results.items()
            ]
        )
    for name, error in results.items():
        if error is not None:
            told = render(f"topic delete {name}", refused(error), as_json=output == "json")
            click.echo(told, err=True)
        elif output != "json":
            click.echo(f"{name} {'would be deleted' if dry_run else 'deleted'}")
    context.exit(ERROR if any(results.values()) else OK)


@click.command(name="trim")
@click.argument("name")
@click.option(
    "--before",
    "text",
    required=True,
    metavar="POSITION",
    help="Records before it go: an offset, end, -N, +N, @-1h, @2026-01-31.",
)
@click.option("-p", "--partition", "chosen", type=int, multiple=True, help="Only this one.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@asks_cluster
@table_option
@shared_options
def trim_command(
    *,
    asking: Asking,
    name: str,
    text: str,
    chosen: tuple[int, ...],
    yes: bool,
    dry_run: bool,
    output: str,
) -> None:
    """Delete the records of a topic before a position.

    \b
    Examples:
      tidelog topic trim orders --before @-7d --dry-run
      tidelog topic trim orders -p 0 --before 1000 --yes
    """
    position = parse_position(text, option="--before")
    if not dry_run:
        advice = f"tidelog topic trim {name} --before {text} --yes"
        confirm(f"Delete the records of {name} before {text}?", yes=yes, advice=advice)

    async def cut(client: Client) -> list[dict[str, int]]:
        topic = await named_topic(client, name)
        indexes = chosen or tuple(each.partition for each in topic.partitions)
        return [await cut_one(client, name, index, position, dry_run) for index in indexes]

    rows = asking.run(cut)
    total = plural(sum(row["deleted"] for row in rows), "offset")
    head = f"{name}: {total} {'would be deleted' if dry_run else 'deleted'}"
    show(output, rows, TRIM_COLUMNS, rows, head=head)


async def cut_one(
    client: Client, name: str, index: int, position: Position, dry_run: bool
) -> dict[str, int]:
    start = (await find_offset(client, name, index, EARLIEST)).offset
    target = await resolve(client, name, index, position)
    after = max(start, target)
    if not dry_run and target > start:
        after = await trim(client, name, index, target)
    return {
        "partition": index,
        "before": start,
        "log_start_offset": after,
        "deleted": max(0, after - start),
    }
