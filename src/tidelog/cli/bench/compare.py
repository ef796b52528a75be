"""`tidelog bench compare`: Tidelog beside Apache Kafka, with the ratio of every row."""

import json
import os
import platform
import re
import signal
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from tidelog.bench.compare import kafka_jars
from tidelog.bench.compare.kafka import KafkaSystem
from tidelog.bench.compare.limits import check_program
from tidelog.bench.compare.report import HEADERS, Document, as_document, table_cells
from tidelog.bench.compare.runner import Results, Step, chosen, nothing_yet, run_into
from tidelog.bench.compare.sections import all_sections
from tidelog.bench.compare.system import AnySection, Scale, System, SystemMissing
from tidelog.bench.compare.tidelog_side import TidelogSystem
from tidelog.bench.compare.tools import KafkaTools
from tidelog.bench.compare.topics import library
from tidelog.bench.compare.warm_clusters import WarmClusters
from tidelog.cli.bench.load_client import check_client
from tidelog.cli.failure import ERROR, INTERRUPTED, OK, USAGE, CommandError
from tidelog.cli.lazy import shared_options
from tidelog.cli.output import duration, plural, table

SHOWN_REASON_MAX = 300


@click.command(name="compare")
@click.option("--only", metavar="REGEX", help="Sections and rows in whose name it is found.")
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True)
@click.option(
    "--scale",
    type=click.Choice([each.value for each in Scale]),
    default=Scale.FULL.value,
    show_default=True,
    help="How much is measured; figures of the tiny one mean nothing.",
)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write all values here.")
@click.option(
    "--plots", type=click.Path(path_type=Path, file_okay=False), help="Draw plots in here."
)
@click.option("--alone", is_flag=True, help="Our half only.")
@click.option("--list", "only_list", is_flag=True, help="Only say which rows there are.")
@click.option("--kafka-version", default=kafka_jars.VERSION, show_default=True)
@click.option(
    "--cache",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".cache"),
    show_default=True,
    help="Where Kafka's jars are kept.",
)
@shared_options
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Measure Tidelog and Apache Kafka in turn, with the same clients, on this machine.

    Kafka is brought by Maven; where it cannot be had, our half is measured alone. A ratio is
    Tidelog's value by Kafka's of the same round. Exit code 1: a row could not be measured.

    \b
    Examples:
      tidelog bench compare --json bench.json --plots docs/bench
      tidelog bench compare --only 'produce.*acks-all' --rounds 3
      tidelog bench compare --list
    """
    check_client()
    check_pattern(given["only"])
    systems, java = systems_of(given)
    scale = Scale(given["scale"])
    with WarmClusters(scale) as warm:
        sections = sections_of(given, systems, java, warm)
        if given["only_list"]:
            rows = [(row.key, row.title) for section in sections for row in section.rows]
            table(("key", "row"), rows)
            return
        prepare(given["json_file"])
        results = nothing_yet(sections, given["rounds"])
        begin, code = time.monotonic(), OK
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # clusters are closed either way
        try:
            run_into(results, sections, systems, partial(tell_step, begin))
        except KeyboardInterrupt:
            click.echo("interrupted: this is what was measured until now", err=True)
            code = INTERRUPTED
    about = about_run(systems, scale, time.monotonic() - begin)
    document = as_document(results, about)
    report(document, results)
    keep(document, given["json_file"], given["plots"])
    context.exit(code if results.is_complete or code else ERROR)


def sections_of(
    given: dict[str, Any], systems: Sequence[System], java: KafkaTools | None, warm: WarmClusters
) -> list[AnySection]:
    """Those that were asked for; there must be one."""
    with_limits = given["only_list"] or has_limits()
    sections = all_sections(Scale(given["scale"]), systems, java, warm, with_limits=with_limits)
    sections = chosen(sections, given["only"])
    if not sections:
        raise CommandError(
            f'no section or row is called like "{given["only"]}"',
            why="the expression is found in none of their names",
            advice="tidelog bench compare --list",
            code=USAGE,
        )
    return sections


def prepare(json_file: Path | None) -> None:
    """What cannot be written is told now, and not in an hour."""
    if json_file is None:
        return
    try:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.touch()
    except OSError as reason:
        raise CommandError(
            f"{json_file} cannot be written", why=str(reason), advice="name another file"
        ) from None


def check_pattern(pattern: str | None) -> None:
    try:
        re.compile(pattern or "")
    except re.error as reason:
        raise CommandError(
            f"--only {pattern} is no regular expression",
            why=str(reason),
            advice="tidelog bench compare --only 'consume|latency'",
            code=USAGE,
        ) from None


def systems_of(given: dict[str, Any]) -> tuple[list[System], KafkaTools | None]:
    """Both, and the Java tools, if Kafka can be had."""
    tidelog = TidelogSystem()
    if given["alone"] and given["only_list"]:
        return [tidelog], None
    version = given["kafka_version"]
    try:
        path = kafka_jars.class_path(given["cache"], version)
    except SystemMissing as missing:
        click.echo(f"without Kafka, our half alone: {missing}", err=True)
        return [tidelog], None
    tools = KafkaTools(path)
    if given["alone"]:
        return [tidelog], tools
    return [tidelog, KafkaSystem(path, version)], tools


def has_limits() -> bool:
    try:
        check_program()
    except SystemMissing as missing:
        click.echo(f"without the rows of the limit: {missing}", err=True)
        return False
    return True


def tell_step(begin: float, step: Step) -> None:
    since = duration(time.monotonic() - begin)
    click.echo(
        f"{step.done + 1:>3}/{step.total}  {step.section}, round {step.round_number + 1}: "
        f"{step.system}, after {since}",
        err=True,
    )


def about_run(systems: Sequence[System], scale: Scale, seconds: float) -> Document:
    return {
        "scale": scale.value,
        "seconds": round(seconds, 1),
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {
            "cores": os.cpu_count(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "kernel": platform.release(),
            "python": platform.python_version(),
            "librdkafka": library().libversion()[0],
        },
        "systems": {system.name: dict(system.facts()) for system in systems},
    }


def report(document: Document, results: Results) -> None:
    table(HEADERS, table_cells(document))
    for failure in results.failures:
        what = failure.row or failure.section
        reason = failure.reason[:SHOWN_REASON_MAX]
        click.echo(
            f"failed: {what}, {failure.system}, round {failure.round_number + 1}: {reason}",
            err=True,
        )
    for name, facts in document["systems"].items():
        click.echo(f"{name}: {', '.join(f'{key} {value}' for key, value in facts.items())}")
    click.echo(f"{plural(document['rounds'], 'round')} in {duration(document['seconds'])}")


def keep(document: Document, json_file: Path | None, plots: Path | None) -> None:
    if json_file is not None:
        text = json.dumps(document, indent=1, ensure_ascii=False)
        json_file.write_text(text + "\n", "utf-8")
        click.echo(f"all values: {json_file}", err=True)
    if plots is not None:
        from tidelog.bench.compare.plots import draw

        for path in draw(document, plots):
            click.echo(f"plot: {path}", err=True)
