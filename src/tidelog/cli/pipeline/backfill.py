"""`tidelog pipeline backfill`"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.failure import USAGE, CommandError, unknown_name
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import plural
from tidelog.cli.pipeline.launching import spoken
from tidelog.cli.pipeline.status import home_option, whole_name
from tidelog.cli.pipeline.table_options import reaches_table, table_of
from tidelog.cli.pipeline.topic_check import access_of
from tidelog.cli.progress import Progress
from tidelog.client import Client
from tidelog.client.offsets import EARLIEST, LATEST, find_offsets
from tidelog.spark.dead_letter_words import SKIP, STOP
from tidelog.spark.failure import TidelogError
from tidelog.spark.pipelines.archive import KIND
from tidelog.spark.pipelines.state import Document, known_pipelines, known_state
from tidelog.spark.ranges import OffsetRange, Offsets, TopicPartition
from tidelog.spark.security_options import Access
from tidelog.spark.tables.store_options import HIDDEN
from tidelog.spark.tables.words import TableSpec
from tidelog.survey.positions import Base, Position, parse_position, resolve
from tidelog.survey.topics import named_topic

if TYPE_CHECKING:
    from tidelog.spark.pipelines.backfill import Added, Stretch

OFFSETS_PER_COMMIT = 1_000_000


class Asked(NamedTuple):
    """The part of each partition that is meant."""

    begin: Position
    end: Position


class Held(NamedTuple):
    """What a partition has, and how far the pipeline has committed it."""

    first: int
    end: int
    committed: int


@click.command(name="backfill")
@click.argument("name", metavar="PIPELINE")
@click.option(
    "--from",
    "start",
    metavar="POSITION",
    default="start",
    show_default=True,
    help="In each partition: start, 1041, +5, -5, @-1h, @2026-01-31T10:00.",
)
@click.option(
    "--until",
    "stop",
    metavar="POSITION",
    default="end",
    show_default=True,
    help="Before it; never above what the pipeline has committed.",
)
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only this one.")
@click.option("-p", "--partition", "chosen", type=int, multiple=True, help="Only this one.")
@click.option(
    "--max-records",
    "most",
    type=click.IntRange(min=1),
    default=OFFSETS_PER_COMMIT,
    show_default=True,
    metavar="N",
    help="At most so many in a commit.",
)
@click.option("--registry", metavar="URL", help="Of schemas, if the archive has one.")
@click.option(
    "--on-bad-record",
    type=click.Choice([STOP, SKIP]),
    default=STOP,
    show_default=True,
    help="What becomes of a record whose value is not of its format.",
)
@click.option("--dry-run", is_flag=True, help="Only tell which rows are missing.")
@home_option
@reaches_table
@asks_cluster
@output_option
@shared_options
def command(asking: Asking, name: str, home: Path, **given: Any) -> None:
    """Add the rows that the table of an archive lacks, each once, while the archive goes on.

    \b
    Examples:
      tidelog pipeline backfill archive-orders --dry-run
      tidelog pipeline backfill archive-orders
      tidelog pipeline backfill archive-orders --from @2026-11-01 --until @2026-11-02
      tidelog pipeline backfill archive-orders --topic orders -p 3 --from 1000 --until 2000

    Only what the pipeline has committed is looked at: rows above belong to its query. It needs no
    Spark. After a crash say it again: rows that are there are left out.
    """
    asked = Asked(
        parse_position(given["start"], option="--from"),
        parse_position(given["stop"], option="--until"),
    )
    known = archive_named(name, home)
    arguments = known["arguments"]
    check_registry(arguments, given["registry"])
    with spoken():
        spec = table_of(places(arguments, given), tuple(arguments["partition_by"]))
        committed = chosen_of(known["name"], home, given)
        ranges = asking.run(lambda client: ranges_in(client, known, committed, asked))
        run(known, spec, access_of(asking.located()), ranges, given)


# ---- which pipeline, which table ----


def archive_named(name: str, home: Path) -> Document:
    known = {each["name"]: each for each in known_pipelines(home)}
    whole = whole_name(name, known)
    if whole not in known and not known:
        raise CommandError(
            f'no pipeline "{name}"',
            why=f"none ran here: there is nothing in {home}",
            advice="tidelog pipeline list    or    --state-dir DIR",
            code=USAGE,
        )
    if whole not in known:
        raise unknown_name("pipeline", name, list(known), advice="tidelog pipeline list")
    found = known[whole]
    if found.get("kind") != KIND:
        raise CommandError(
            f"{whole} is no archive",
            why=f"it is of the kind {found.get('kind')}; only archives have a row for each record",
            advice="tidelog pipeline list",
            code=USAGE,
        )
    return found


def check_registry(arguments: Document, registry: str | None) -> None:
    if (arguments.get("value_format") is not None) == (registry is not None):
        return
    why = "its values have schemas" if registry is None else "its values have none in a registry"
    raise CommandError(
        "the archive and --registry do not fit",
        why=why,
        advice="--registry http://host:8081" if registry is None else "leave --registry out",
        code=USAGE,
    )


def places(arguments: Document, given: dict[str, Any]) -> dict[str, Any]:
    """Where the table is, as options of a command say it."""
    catalog = given["catalog"] or arguments.get("catalog")
    if catalog is not None and HIDDEN in catalog:
        raise CommandError(
            "the catalog has a password, which is kept nowhere",
            why=f"the archive has written with --catalog {catalog}",
            advice="--catalog URI, with the password",
            code=USAGE,
        )
    told = {"to": arguments["to"], "form": arguments["format"], "table": arguments.get("table")}
    return {**given, **told, "catalog": catalog}


# ---- which offsets ----


def chosen_of(name: str, home: Path, given: dict[str, Any]) -> Offsets:
    """How far the pipeline has committed those partitions that are meant."""
    committed = known_state(home / name).committed_offsets()
    if not committed:
        raise TidelogError(
            f"{name} has committed no batch yet", "start it first: all rows still belong to it"
        )
    for topic in given["topics"]:
        if topic not in {known for known, _ in committed}:
            raise unknown_name(
                "topic", topic, sorted({known for known, _ in committed}),
                advice=f"one that {name} has read",
            )  # fmt: skip
    found = {
        (topic, index): offset
        for (topic, index), offset in sorted(committed.items())
        if topic in (given["topics"] or (topic,)) and index in (given["chosen"] or (index,))
    }
    if not found:
        raise CommandError(
            "no such partition",
            why=f"{name} has read the partitions {', '.join(f'{t}-{p}' for t, p in committed)}",
            advice="another -p",
            code=USAGE,
        )
    return found


async def ranges_in(
    client: Client, known: Document, committed: Offsets, asked: Asked
) -> list[OffsetRange]:
    cluster_id = (await client.brokers()).cluster_id
    if known["arguments"]["cluster_id"] not in (cluster_id, None):
        raise TidelogError(
            f"{known['name']} reads another cluster: {known['arguments']['cluster_id']}, "
            f"and this one is {cluster_id}",
            "-b of that cluster",
        )
    for topic in sorted({topic for topic, _ in committed}):
        await named_topic(client, topic)
    first = await find_offsets(client, dict.fromkeys(committed, EARLIEST))
    ends = await find_offsets(client, dict.fromkeys(committed, LATEST))
    found = []
    for where, offset in committed.items():
        held = Held(first[where].offset, ends[where].offset, offset)
        check_held(where, held, asked, known["name"])
        begin, end = [await resolve(client, *where, position) for position in asked]
        found.append(OffsetRange(*where, begin, max(begin, min(end, offset))))
    return found


def check_held(where: TopicPartition, held: Held, asked: Asked, name: str) -> None:
    """Offsets that people name have to be there; words and times mean what is there."""
    place = f"{where[0]}-{where[1]}"
    if held.committed > held.end:
        raise TidelogError(
            f"{place} ends at offset {held.end}, and {name} has committed {held.committed}: "
            "the topic was made anew",
            "rows of the old topic cannot be read any more; archive the new one elsewhere",
        )
    if asked.begin.base is Base.OFFSET and asked.begin.value < held.first:
        raise TidelogError(
            f"{place} begins at offset {held.first}: what was before it is gone",
            f"--from start, or -p {where[1]} --from {held.first}",
        )
    for option, position in (("--from", asked.begin), ("--until", asked.end)):
        if position.base is Base.OFFSET and position.value > held.committed:
            raise TidelogError(
                f"{option} {position.value} is above what {name} has committed of {place}, "
                f"{held.committed}: rows above belong to its query",
                f"--until end, which goes that far; or -p {where[1]} --until {held.committed}",
            )


# ---- doing it ----


def run(
    known: Document,
    spec: TableSpec,
    access: Access,
    ranges: list[OffsetRange],
    given: dict[str, Any],
) -> None:
    from tidelog.spark.connection import close_all
    from tidelog.spark.pipelines import backfill

    schema = backfill.checked_schema(spec)
    query = backfill.query_of(known["name"])
    seen = backfill.look(spec, query, ranges)
    try:
        if given["dry_run"]:
            read = backfill.offsets_of(access)
            counts = [backfill.count(read, each, given["most"]) for each in seen.stretches]
            show_plan(seen.stretches, counts, given["output"])
            return
        show_plan(seen.stretches, None, given["output"])
        registry = None
        if given["registry"] is not None:
            registry = (given["registry"], known["arguments"]["value_format"])
        work = backfill.Work(
            spec,
            query,
            backfill.records_of(access, schema, registry),
            given["most"],
            given["on_bad_record"] == SKIP,
        )
        done: list[Added] = []
        with Progress("rows", None) as progress:
            for each in backfill.fill(work, seen):
                done.append(each)
                progress.update(sum(one.rows for one in done), plural(len(done), "piece"))
        show_done(done, known["arguments"]["to"], given["output"])
    finally:
        close_all()


def show_plan(stretches: "tuple[Stretch, ...]", counts: list[int] | None, output: str) -> None:
    """`counts`: how many of the offsets without a row are records."""
    if output == "json":
        document = []
        for at, each in enumerate(stretches):
            told = {**each.span._asdict(), "without_row": each.missing}
            document.append(told if counts is None else {**told, "rows_missing": counts[at]})
        click.echo(json.dumps({"plan": document}))
        return
    for at, each in enumerate(stretches):
        span = each.span
        lacks = "" if counts is None else f", {plural(counts[at], 'row')} missing"
        click.echo(
            f"{span.topic}-{span.partition} [{span.start}, {span.end}): "
            f"{plural(each.missing, 'offset')} without a row{lacks}"
        )
    if counts is not None:
        click.echo(f"{plural(sum(counts), 'row')} would be added")
    if not stretches:
        click.echo("the range is empty: the pipeline has committed nothing of it", err=True)


def show_done(done: "list[Added]", target: str, output: str) -> None:
    rows, skipped, commits = (sum(each) for each in zip(*done, strict=True)) if done else (0, 0, 0)
    if output == "json":
        click.echo(json.dumps({"added": rows, "skipped": skipped, "commits": commits}))
        return
    bad = f", {plural(skipped, 'bad record')} skipped" if skipped else ""
    click.echo(f"{plural(rows, 'row')} added to {target} in {plural(commits, 'commit')}{bad}")
