"""`tidelog pipeline status`"""

import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import click

from tidelog.cli.failure import CommandError, unknown_name
from tidelog.cli.lazy import shared_options, table_option
from tidelog.cli.output import count
from tidelog.cli.tables import Column, show
from tidelog.cli.times import moment, passed
from tidelog.cli.watching import watch_option, watched
from tidelog.spark.pipelines.state import FAILED, HOME, known_pipelines

COLUMNS = (
    Column("NAME", "name"),
    Column("KIND", "kind"),
    Column("STATE", "state"),
    Column("BATCH", "batch"),
    Column("ROWS IN", "rows_in"),
    Column("ROWS OUT", "rows_out"),
    Column("ROWS/S", "rows_per_second"),
    Column("LAG", "lag"),
    Column("LAST WORD", "at"),
    Column("STARTED", "started", wide=True),
    Column("PID", "pid", wide=True),
    Column("SPARK", "spark", wide=True),
    Column("RESTARTS", "restarts", wide=True),
    Column("GROUP", "group", wide=True),
    Column("METRICS", "metrics", wide=True),
)


def home_option(function: Any) -> Any:
    return click.option(
        "--state-dir",
        "home",
        type=click.Path(file_okay=False, path_type=Path),
        default=HOME,
        show_default=True,
        help="Where checkpoints lie.",
    )(function)


@click.command(name="status")
@click.argument("names", nargs=-1, metavar="[NAME]…")
@home_option
@watch_option
@table_option
@shared_options
def command(names: tuple[str, ...], home: Path, watch: bool, output: str) -> None:
    """Show whether pipelines run, their last batch, and how far behind they are.

    \b
    Examples:
      tidelog pipeline status
      tidelog pipeline status archive-orders --watch
      tidelog pipeline status -o json

    A name may be shortened, as long as only one begins so. The lag is what the topics had beyond
    the last batch when it was read, in offsets; the group has committed the same for lag tools.
    """
    watched(lambda: once(names, home, output), watch=watch)


def once(names: tuple[str, ...], home: Path, output: str) -> None:
    known = {each["name"]: each for each in known_pipelines(home)}
    names = tuple(whole_name(name, known) for name in names)
    for name in names:
        if name not in known and not known:
            raise CommandError(
                f'no pipeline "{name}"',
                why=f"none ran here: there is nothing in {home}",
                advice="tidelog pipeline list    or    --state-dir DIR",
            )
        if name not in known:
            raise unknown_name("pipeline", name, list(known), advice="tidelog pipeline list")
    chosen = [known[each] for each in names] or list(known.values())
    show(output, chosen, COLUMNS, [row_of(each) for each in chosen])
    if output in ("text", "wide"):
        for each in chosen:
            if each["state"] == FAILED:
                click.echo(f"{each['name']}: {each['progress'].get('error', 'no reason is known')}")
            for group, told in each["progress"].get("groups", {}).items():
                click.echo(f"{each['name']}: group {group}: {told['state']}")
        if not chosen:
            click.echo(f"none ran here yet: there is nothing in {home}", err=True)


def whole_name(name: str, known: Collection[str]) -> str:
    """Usual names have an end that nobody remembers."""
    begin_so = [each for each in known if each.startswith(f"{name}-")]
    return begin_so[0] if name not in known and len(begin_so) == 1 else name


def row_of(described: dict[str, Any]) -> dict[str, Any]:
    """The columns of a table, from what lies beside the checkpoint."""
    progress = described["progress"]
    numbers = {
        name: None if progress.get(name) is None else count(progress[name])
        for name in ("batch", "rows_in", "rows_out", "rows_per_second", "lag")
    }
    at_ms, started_ms = progress.get("at_ms"), described.get("started_ms")
    return {
        **described,
        **numbers,
        "restarts": progress.get("restarts"),
        "at": None if at_ms is None else f"{passed(at_ms, int(time.time() * 1000))} ago",
        "started": None if started_ms is None else moment(started_ms),
    }
