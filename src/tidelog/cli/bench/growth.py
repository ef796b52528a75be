"""`tidelog bench growth`: what one more partition, connection or byte costs."""

import json
import os
import re
from pathlib import Path
from typing import Any

import click

from tidelog.bench.compare.system import Scale
from tidelog.bench.compare.tidelog_side import TidelogSystem
from tidelog.bench.growth.curves import (
    HEADERS,
    Curve,
    Point,
    as_document,
    figure,
    rising,
    table_rows,
)
from tidelog.bench.growth.plots import draw
from tidelog.bench.growth.run import Plan, measure, plans
from tidelog.cli.failure import ERROR, OK, USAGE, CommandError
from tidelog.cli.lazy import shared_options
from tidelog.cli.output import table


@click.command(name="growth")
@click.option(
    "--scale",
    type=click.Choice([each.value for each in Scale]),
    default=Scale.FULL.value,
    show_default=True,
    help="How far the curves go, and how long each size is measured.",
)
@click.option("--only", metavar="REGEX", help="The curves whose names match.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="All values, as JSON.")
@click.option("--plots", type=click.Path(path_type=Path), help="A directory for the pictures.")
@shared_options
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Measure how costs grow with partitions, connections, record size and log size.

    Each size gets a new cluster. The table has the cost per unit and its ratio to the row before:
    1 is linear, less is better, more has to be explained. Exit code 1: a size could not be
    measured.

    \b
    Examples:
      tidelog bench growth --scale quick
      tidelog bench growth --only partitions --json growth.json --plots docs/bench
    """
    chosen = chosen_plans(Scale(given["scale"]), given["only"])
    curves = []
    for plan in chosen:
        curve = measure(plan, TidelogSystem(), tell_point)
        curves.append(curve)
        report(curve)
        if given["plots"] is not None and curve.points:
            draw(curve, given["plots"] / f"growth-{curve.name}.png")
        if given["json_path"] is not None:  # after every curve: a run takes long
            write_json(given["json_path"], given["scale"], curves)
    context.exit(ERROR if any(each.remark for each in curves) else OK)


def chosen_plans(scale: Scale, pattern: str | None) -> list[Plan]:
    known = plans(scale)
    try:
        found = [each for each in known if pattern is None or re.search(pattern, each.name)]
    except re.error as reason:
        raise CommandError(
            f"{pattern!r} is not a regular expression",
            why=str(reason),
            advice="--only partitions",
            code=USAGE,
        ) from None
    if not found:
        raise CommandError(
            f"no curve matches {pattern!r}",
            why=f"known: {', '.join(each.name for each in known)}",
            advice="--only partitions",
            code=USAGE,
        )
    return found


def tell_point(name: str, point: Point) -> None:
    values = " · ".join(f"{key} {figure(value)}" for key, value in point.values.items())
    click.echo(f"{name} {point.size:,}: {values}", err=True)


def report(curve: Curve) -> None:
    click.echo(f"\n{curve.title}")
    table(["", curve.size_title, *HEADERS[2:]], table_rows(curve))
    if curve.remark:
        click.echo(f"  {curve.remark}")
    found = list(rising(curve))
    for each in found:
        click.echo(f"  rises: {each}")
    if not found and curve.points:
        click.echo("  no cost per unit rises")


def write_json(path: Path, scale: str, curves: list[Curve]) -> None:
    document = {
        "scale": scale,
        "cores": os.cpu_count(),
        "curves": [as_document(each) for each in curves],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")
