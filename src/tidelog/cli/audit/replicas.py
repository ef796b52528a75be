"""`tidelog audit replicas`: the files of all replicas, compared."""

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from tidelog.audit.replica_comparison import (
    DIVERGING,
    IDENTICAL,
    LAGGING,
    TRIMMED,
    Comparison,
)
from tidelog.audit.replicas import (
    LivePartition,
    PartitionWork,
    TopicPartition,
    ask_live,
    audit_here,
    work_of,
)
from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.failure import ERROR, OK, UNREACHABLE, USAGE, VIOLATION, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.local.home import load_nodes, place_options
from tidelog.cli.output import duration, plural, print_json
from tidelog.cli.progress import Progress
from tidelog.cli.spark_options import spark_session
from tidelog.client import Client
from tidelog.cluster import layout
from tidelog.replica_files import DataDirectory, NoDataDirectory

SHOWN = 10
LIVE_WITHIN_MS = 5_000
FROM_BROKERS, FROM_CHECKPOINTS = "brokers", "checkpoints"


class ReplicasOptions(NamedTuple):
    """The command's options, as click found them."""

    asking: Asking
    directories: tuple[str, ...]
    topics: tuple[str, ...]
    spark_url: str | None
    jobs: int
    name: str | None
    data_dir: Path
    output: str


class Audited(NamedTuple):
    comparisons: list[Comparison]
    bounds: str
    seconds: float

    @property
    def bytes_read(self) -> int:
        return sum(each.bytes_read for each in self.comparisons)

    @property
    def gigabytes_per_second(self) -> float:
        return self.bytes_read / 1e9 / max(self.seconds, 1e-9)

    def of(self, verdict: str) -> list[Comparison]:
        return [each for each in self.comparisons if each.verdict == verdict]


@click.command(name="replicas")
@click.option(
    "--dir",
    "directories",
    multiple=True,
    metavar="ID=PATH",
    help="The data directory of a broker; the local cluster's if not given. May be repeated.",
)
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC", help="Only this one; repeatable."
)
@click.option("--master", "spark_url", metavar="URL", help="Read and compare on this Spark.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    show_default="one per processor",
    help="How many files to read at once.",
)
@place_options
@asks_cluster
@output_option
@shared_options
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Compare every replica's segments with those of the others.

    \b
    Examples:
      tidelog audit replicas
      tidelog audit replicas --topic orders -o json
      tidelog audit replicas --dir 1=/var/lib/one --dir 2=/var/lib/two
      tidelog audit replicas --master 'local[*]'

    Every batch is read and its checksum computed. Compared is what lies below the high watermark,
    which running brokers are asked for (with --dir, if -b says where they are); else the
    checkpoints tell it. Replicas that are behind are told and are no damage. The brokers may run or
    not, and nothing is changed.

    Ends with exit code 5 if replicas differ below the high watermark, or one cannot be read.
    """
    options = ReplicasOptions(**given)
    directories, brokers = find_directories(options)
    audited = run(options, directories, brokers)
    if options.output == "json":
        print_json(as_document(audited))
    else:
        tell(audited)
    context.exit(VIOLATION if audited.of(DIVERGING) else OK)


# ---- what to compare ----


def find_directories(options: ReplicasOptions) -> tuple[list[DataDirectory], Asking | None]:
    """Those that were given, or those of the local cluster; and how to ask its brokers."""
    asking = options.asking
    named = asking.bootstrap or asking.properties.get("bootstrap.servers")
    given = None if named is None else asking._replace(bootstrap=named)
    if options.directories:
        return [_given(text) for text in options.directories], given
    nodes = load_nodes(options.data_dir, options.name)
    places = [
        (layout.data_directory(nodes.directory, node.id), node.id) for node in nodes.state.brokers
    ]
    if given is None and nodes.state.is_running:
        login = layout.admin_properties(nodes.directory, nodes.state)
        properties = {**login, **asking.properties}
        given = asking._replace(bootstrap=nodes.state.bootstrap_servers, properties=properties)
    return [_opened(*place) for place in places], given


def _given(text: str) -> DataDirectory:
    number, equals, path = text.partition("=")
    if not equals or not (number.isascii() and number.isdigit()):
        raise CommandError(
            f'--dir "{text}" names no broker',
            why="a directory is given with the id of its broker",
            advice=f"--dir 1={path or text}",
            code=USAGE,
        )
    return _opened(Path(path), int(number))


def _opened(path: Path, node_id: int) -> DataDirectory:
    try:
        return DataDirectory(path, node_id)
    except NoDataDirectory as reason:
        raise CommandError(
            f"the data directory of broker {node_id} cannot be read",
            why=str(reason),
            advice=f"--dir {node_id}=DIRECTORY with its log.dirs",
            code=USAGE,
        ) from None


def find_work(
    options: ReplicasOptions, directories: Sequence[DataDirectory], brokers: Asking | None
) -> tuple[list[PartitionWork], str]:
    there = sorted({name for each in directories for name in each.partitions()})
    unknown = [topic for topic in options.topics if topic not in {name for name, _ in there}]
    if unknown:
        raise CommandError(
            f"there is no replica of {unknown[0]}",
            why="none of the data directories has one",
            advice="tidelog topic list",
            code=USAGE,
        )
    wanted = [name for name in there if not options.topics or name[0] in options.topics]
    live = _ask(brokers, wanted) if brokers is not None and wanted else None
    work = work_of(directories, wanted, live or {})
    return work, FROM_CHECKPOINTS if live is None else FROM_BROKERS


def _ask(
    brokers: Asking, wanted: Sequence[TopicPartition]
) -> dict[TopicPartition, LivePartition] | None:
    """None if nobody answers: then the checkpoints have to do."""

    async def look(client: Client) -> dict[TopicPartition, LivePartition]:
        return await ask_live(client, wanted)

    try:
        timeout_ms = min(brokers.timeout_ms, LIVE_WITHIN_MS)
        return brokers._replace(timeout_ms=timeout_ms).run(look)
    except CommandError as error:
        if error.code not in (UNREACHABLE, ERROR):
            raise
        click.echo(f"{error.what}: high watermarks are those of the checkpoints", err=True)
        return None


# ---- comparing ----


def run(
    options: ReplicasOptions, directories: Sequence[DataDirectory], brokers: Asking | None
) -> Audited:
    work, bounds = find_work(options, directories, brokers)
    found: list[Comparison] = []
    if options.spark_url is not None:
        paths = [each.path for each in directories]
        seconds = _on_spark(options.spark_url, work, paths, found)
    else:
        seconds = _here(options.jobs, work, found)
    found.sort(key=lambda each: (each.topic, each.partition))
    return Audited(found, bounds, seconds)


def _here(jobs: int, work: Sequence[PartitionWork], found: list[Comparison]) -> float:
    """How many seconds it took."""
    begin = time.monotonic()
    total = sum(each.size_bytes for each in work)
    lock = threading.Lock()
    so_far = 0
    with Progress("MB", max(1, total // 1_000_000)) as progress:

        def tell_bytes(more: int) -> None:
            nonlocal so_far
            with lock:
                so_far += more
                progress.update(so_far // 1_000_000, plural(len(found), "partition"))

        audit_here(work, jobs, found.append, tell_bytes)
    return time.monotonic() - begin


def _on_spark(
    spark_url: str, work: Sequence[PartitionWork], paths: Sequence[str], found: list[Comparison]
) -> float:
    """How many seconds it took, without starting Spark."""
    with (
        spark_session("tidelog audit replicas", spark_url, {}) as spark,
        Progress("partitions", len(work)) as progress,
    ):
        from tidelog.audit.replicas_on_spark import audit_on_spark

        def done(comparison: Comparison) -> None:
            found.append(comparison)
            progress.update(len(found))

        begin = time.monotonic()
        audit_on_spark(spark, work, paths, done)
        return time.monotonic() - begin


# ---- telling ----


def tell(audited: Audited) -> None:
    lines = []
    for each in audited.of(DIVERGING):
        lines.append(f"{each.name} DIVERGES below {each.high_watermark}, its high watermark")
        lines += [f"  {finding.told()}" for finding in each.findings[:SHOWN]]
        if len(each.findings) > SHOWN:
            lines.append(f"  and {len(each.findings) - SHOWN} more")
    behind = audited.of(LAGGING)
    for each in behind[:SHOWN]:
        ends = [(node, end) for node, end in sorted(each.ends.items()) if end < each.high_watermark]
        who = ", ".join(f"broker {node} at {end}" for node, end in ends)
        lines.append(f"{each.name} lags: {who} of {each.high_watermark}")
    if len(behind) > SHOWN:
        lines.append(f"and {len(behind) - SHOWN} more that lag")
    trimmed = audited.of(TRIMMED)
    lines += [each.told() for each in trimmed[:SHOWN]]
    if len(trimmed) > SHOWN:
        lines.append(f"and {len(trimmed) - SHOWN} more that start at different offsets")
    for line in lines:
        click.echo(line)
    counts = ", ".join(
        f"{len(audited.of(verdict))} {verdict}"
        for verdict in (IDENTICAL, LAGGING, TRIMMED, DIVERGING)
        if verdict != TRIMMED or trimmed
    )
    count = plural(len(audited.comparisons), "partition")
    click.echo(f"{count}: {counts}; high watermarks from {audited.bounds}")
    click.echo(
        f"{audited.bytes_read / 1e9:.3f} GB in {duration(audited.seconds)},"
        f" {audited.gigabytes_per_second:.2f} GB/s"
    )


def as_document(audited: Audited) -> dict[str, Any]:
    return {
        "verdict": DIVERGING if audited.of(DIVERGING) else "healthy",
        "high_watermarks_from": audited.bounds,
        "bytes_read": audited.bytes_read,
        "seconds": round(audited.seconds, 3),
        "gigabytes_per_second": round(audited.gigabytes_per_second, 3),
        "partitions": [_partition_document(each) for each in audited.comparisons],
    }


def _partition_document(comparison: Comparison) -> dict[str, Any]:
    return {
        "topic": comparison.topic,
        "partition": comparison.partition,
        "verdict": comparison.verdict,
        "high_watermark": comparison.high_watermark,
        "starts": {str(node): start for node, start in sorted(comparison.starts.items())},
        "ends": {str(node): end for node, end in sorted(comparison.ends.items())},
        "findings": [
            {
                "kind": each.kind,
                "brokers": list(each.nodes),
                "first_offset": each.first_offset,
                "last_offset": each.end_offset - 1,
                "segment": each.segment,
                "position": each.position,
                "told": each.told(),
            }
            for each in comparison.findings
        ],
    }
