"""`tidelog bench quick`: our own half and the limit of the machine, in under three minutes."""

import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

import tidelog
from tidelog.bench.compare.system import SystemFailed
from tidelog.bench.limit.program import CompilerMissing, LimitFailed
from tidelog.bench.quick.measure import measure_limits, measure_round
from tidelog.bench.quick.report import Line, NotARun, document_of, lines_of, load
from tidelog.bench.quick.rows import QUICK, TINY, Amount
from tidelog.cli.bench.load_client import check_client
from tidelog.cli.failure import UNREACHABLE, USAGE, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.local.up import interrupts
from tidelog.cli.output import print_json, table

NOTEWORTHY = 0.05
AMOUNTS = {"quick": QUICK, "tiny": TINY}


@click.command(name="quick")
@click.option(
    "--rounds",
    type=click.IntRange(1, 50),
    default=3,
    show_default=True,
    help="Each on a new cluster.",
)
@click.option(
    "--scale",
    type=click.Choice(list(AMOUNTS)),
    default="quick",
    show_default=True,
    help="tiny only shows that it works.",
)
@click.option(
    "--secure",
    is_flag=True,
    help="Also on a cluster of `up --secure`, and divide by the other.",
)
@click.option(
    "--json",
    "json_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write every value there.",
)
@click.option(
    "--against",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also divide by the run in this file.",
)
@output_option
@shared_options
def command(**given: Any) -> None:
    """See in under three minutes whether something became slower.

    Three brokers are started for every round and removed afterwards; right after them the limit
    program moves the same bytes, as fast as this machine can. Of all figures the processor time
    of the brokers changes the least when the machine does something else as well.

    \b
    Examples:
      tidelog bench quick --json before.json
      tidelog bench quick --against before.json
      tidelog bench quick --secure
    """
    earlier = read_earlier(given["against"])
    check_writable(given["json_file"])
    check_client()
    with interrupts():
        document = measured(AMOUNTS[given["scale"]], given["rounds"], secure=given["secure"])
    document["facts"]["scale"] = given["scale"]
    if given["json_file"] is not None:
        given["json_file"].write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    if given["output"] == "json":
        print_json(document)
        return
    lines = lines_of(document, earlier)
    print_lines(lines, with_earlier=earlier is not None, with_secured=given["secure"])


def measured(amount: Amount, rounds: int, *, secure: bool) -> dict[str, Any]:
    begin = time.monotonic()
    values: list[dict[str, float]] = []
    secured: list[dict[str, float]] = []
    limits: list[dict[str, float]] = []
    limit_is_missing: str | None = None
    for number in range(1, rounds + 1):
        tell = teller(f"round {number} of {rounds}")
        values.append(one_round(amount, tell))
        if secure:
            told = teller(f"round {number} of {rounds}, secured")
            secured.append(one_round(amount, told, secure=True))
        if limit_is_missing is None:
            try:
                limits.append(measure_limits(amount, tell))
            except (CompilerMissing, LimitFailed) as reason:
                limit_is_missing = str(reason)
                click.echo(f"no limit row: {reason}", err=True)
    facts = {
        "version": tidelog.__version__,
        "rounds": rounds,
        "seconds": round(time.monotonic() - begin, 1),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "kernel": platform.release(),
        "python": platform.python_version(),
        "limit_is_missing": limit_is_missing,
    }
    return document_of(values, limits, facts, secured)


def one_round(
    amount: Amount, tell: Callable[[str], None], *, secure: bool = False
) -> dict[str, float]:
    try:
        return measure_round(amount, tell, secure=secure)
    except SystemFailed as reason:
        raise CommandError(
            "the benchmark could not be run",
            why=str(reason),
            advice="tidelog bench quick --scale tiny",
            code=UNREACHABLE,
        ) from None


def teller(where: str) -> Callable[[str], None]:
    def tell(step: str) -> None:
        click.echo(f"{where}: {step}", err=True)

    return tell


def read_earlier(path: Path | None) -> dict[str, Any] | None:
    if path is None:
        return None
    try:
        return load(path)
    except NotARun as reason:
        raise CommandError(
            f"{path} is not an earlier run",
            why=str(reason),
            advice="tidelog bench quick --json FILE writes one",
            code=USAGE,
        ) from None


def check_writable(path: Path | None) -> None:
    """Before anything is started: minutes of measuring must not be lost to a wrong path."""
    if path is None:
        return
    is_new = not path.exists()
    try:
        with path.open("ab"):
            pass
        if is_new:
            path.unlink()
    except OSError as reason:
        raise CommandError(
            f"{path} cannot be written",
            why=str(reason.strerror or reason),
            advice="--json with another place",
            code=USAGE,
        ) from None


def print_lines(lines: list[Line], *, with_earlier: bool, with_secured: bool) -> None:
    headers = ["row", "median", "unit", "limit", "× limit"]
    rows = [
        [
            line.row.title,
            figure(line.value),
            line.row.unit,
            figure(line.limit),
            figure(line.to_limit),
        ]
        for line in lines
    ]
    if with_secured:
        headers += ["secured", "× plain"]
        for cells, line in zip(rows, lines, strict=True):
            cells += [figure(line.secured), figure(line.to_plain)]
    if with_earlier:
        headers += ["× earlier", ""]
        for cells, line in zip(rows, lines, strict=True):
            cells += [figure(line.to_earlier), judged(line)]
    table(headers, rows)


def figure(value: float | None) -> str:
    """Three digits that count: 0.0123, 1.23, 12.3, 1,234."""
    if value is None:
        return "-"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value < 10 else f"{value:.1f}"


def judged(line: Line) -> str:
    """What the ratio to the earlier run means: rows differ in which direction is good. Nothing is
    said of what may be chance."""
    ratio = line.to_earlier
    if ratio is None or not line.is_apart or abs(ratio - 1) < NOTEWORTHY:
        return ""
    return "better" if (ratio > 1) == line.row.more_is_better else "worse"
