"""`tidelog pipeline maintain`"""

import json
import time
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.durations import DURATION
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import plural
from tidelog.cli.pipeline.launching import spoken
from tidelog.cli.pipeline.table_options import names_table, table_of

if TYPE_CHECKING:
    from tidelog.spark.pipelines.maintenance import Plan

MIB = 1 << 20
SHOWN = 20


@click.command(name="maintain")
@names_table
@click.option(
    "--small",
    "small_mib",
    type=click.IntRange(min=1),
    default=32,
    show_default=True,
    metavar="MIB",
    help="Files below it are put together.",
)
@click.option(
    "--older-than",
    "older_than_ms",
    type=DURATION,
    default="7d",
    show_default=True,
    help="What was needed since then stays: older versions, and files of batches under way.",
)
@click.option("--dry-run", is_flag=True, help="Only tell what would be done.")
@output_option
@shared_options
def command(**given: Any) -> None:
    """Put a table in order: small files together, old versions and files of no version gone.

    \b
    Examples:
      tidelog pipeline maintain --to lake/orders --dry-run
      tidelog pipeline maintain --to lake/orders
      tidelog pipeline maintain --to lake/orders --format iceberg --older-than 2d

    Rows stay what they are. A pipeline may go on writing into the table meanwhile; it needs no
    Spark. Nothing may be about to be committed that was written before --older-than.
    """
    with spoken():
        from tidelog.spark.pipelines import maintenance
        from tidelog.spark.tables.forms import open_table

        spec = table_of(given, ())
        limits = maintenance.Limits(given["small_mib"] * MIB, given["older_than_ms"])
        now_ms = time.time_ns() // 1_000_000
        plan = maintenance.plan(spec, limits, now_ms)
        show(plan, given)
        if given["dry_run"]:
            return
        columns = partitioning(plan, open_table(spec).files())
        spec = spec._replace(partition_by=columns)
        done = [maintenance.compact(spec, each) for each in plan.groups]
        cleared = maintenance.clear(spec, limits, now_ms)
    if given["output"] == "json":
        counts = {"compacted": sum(done), "overtaken": len(done) - sum(done)}
        gone = {"snapshots": cleared.snapshots, "files": len(cleared.files)}
        click.echo(json.dumps({**counts, **gone}))
        return
    overtaken = len(done) - sum(done)
    click.echo(
        f"{plural(sum(done), 'place')} put together, {plural(cleared.snapshots, 'snapshot')} and "
        f"{plural(len(cleared.files), 'file')} gone"
    )
    if overtaken:
        click.echo(f"{plural(overtaken, 'place')} changed meanwhile: say it again", err=True)


def partitioning(plan: "Plan", files: list[Any]) -> tuple[str, ...]:
    """Which columns the files of a table are sorted by, as the table itself has it."""
    return tuple(name for name, _ in files[0].values) if files else ()


def show(plan: "Plan", given: dict[str, Any]) -> None:
    small = sum(len(each.files) for each in plan.groups)
    if given["output"] == "json":
        document = {
            "groups": [
                {"place": dict(each.place), "files": [file.name for file in each.files]}
                for each in plan.groups
            ],
            "snapshots": plan.unused.snapshots,
            "files": list(plan.unused.files),
        }
        click.echo(json.dumps({"plan": document}))
        return
    click.echo(f"plan: {plural(small, 'small file')} in {plural(len(plan.groups), 'place')}, "
               f"{plural(plan.unused.snapshots, 'snapshot')} to expire, "
               f"{plural(len(plan.unused.files), 'file')} to remove")  # fmt: skip
    for name in plan.unused.files[:SHOWN]:
        click.echo(f"  remove {name}")
    if len(plan.unused.files) > SHOWN:
        click.echo(f"  and {len(plan.unused.files) - SHOWN} more")
