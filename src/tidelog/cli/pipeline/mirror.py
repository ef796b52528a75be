"""`tidelog pipeline mirror`"""

import re
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.asking import Asking, read_command_config
from tidelog.cli.durations import DURATION
from tidelog.cli.failure import USAGE, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.pipeline.launching import Job, Launch, launch_job, runs_pipeline, spoken
from tidelog.cli.pipeline.topic_check import Looked, look_at
from tidelog.client import Client
from tidelog.spark.pipelines import mirror as pipeline
from tidelog.spark.pipelines.topics import EARLIEST, LATEST, Topics, stream_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tidelog.spark.pipelines.state import PipelineState


@click.command(name="mirror")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…")
@click.option("--from", "source", required=True, metavar="HOST:PORT,…", help="Brokers to read.")
@click.option("--to", "target", required=True, metavar="HOST:PORT,…", help="Brokers to write to.")
@click.option(
    "--from-config", "source_config", metavar="FILE", help="Properties of a client for --from."
)
@click.option(
    "--to-config", "target_config", metavar="FILE", help="Properties of a client for --to."
)
@click.option("--prefix", default="", metavar="TEXT", help="Before the names of the copies.")
@click.option(
    "--starting",
    type=click.Choice([EARLIEST, LATEST]),
    default=EARLIEST,
    show_default=True,
    help="Where the very first batch begins.",
)
@click.option(
    "--max-records", type=click.IntRange(min=1), metavar="N", help="At most so many in a batch."
)
@click.option(
    "--timeout",
    "timeout_ms",
    type=DURATION,
    default="15s",
    show_default=True,
    help="How long to try to reach the clusters.",
)
@runs_pipeline
@output_option
@shared_options
@click.pass_context
def command(context: click.Context, /, launch: Launch, **given: Any) -> None:
    """Copy topics to another cluster, exactly once: same partitions, keys, headers and times.

    \b
    Examples:
      tidelog pipeline mirror --from a:9092 --to b:9092 orders payments
      tidelog pipeline mirror --from a:9092 --to a:9092 orders --prefix copy. --once
      tidelog pipeline mirror --from a:9092 --to b:9092 orders --to-config b.properties

    Topics that are missing over there are made with as many partitions. Goes on until Ctrl-C
    unless --once is given, and where it was when it is started again.
    """
    prefix = given["prefix"]
    if not re.fullmatch(r"[A-Za-z0-9._-]*", prefix):
        raise CommandError(
            f"wrong value for --prefix: {prefix}",
            why="names of topics are letters, digits, dots, dashes and underscores",
            advice="--prefix copy.",
            code=USAGE,
        )
    here, there = (
        Asking(given[side], given["timeout_ms"], read_command_config(given[f"{side}_config"]))
        for side in ("source", "target")
    )
    looked = look_at(here, given["topics"])
    other = look_at(there, ())
    with spoken():
        for made in make_topics(here, there, looked, prefix):
            click.echo(f"made the topic {made} on {given['target']}", err=True)
    mirror = pipeline.Mirror(other.access, prefix)
    context.exit(launch_job(launch, make_job(looked, other, mirror, given), given["output"]))


def make_topics(here: Asking, there: Asking, looked: Looked, prefix: str) -> list[str]:
    """The names of those that were not there."""
    made: list[str] = []

    async def from_here(source: Client) -> None:
        assert there.bootstrap is not None, "--to is required"
        async with Client(
            there.bootstrap, timeout_ms=there.timeout_ms, properties=there.properties
        ) as target:
            for place in await pipeline.places(source, target, looked.topics, prefix):
                if await pipeline.make_target(source, target, place):
                    made.append(place.target)

    here.run(from_here)
    return made


def make_job(looked: Looked, other: Looked, mirror: pipeline.Mirror, given: dict[str, Any]) -> Job:
    def start(spark: "SparkSession", state: "PipelineState", launch: Launch) -> "StreamingQuery":
        topics = Topics(
            looked.access,
            looked.names,
            given["starting"],
            given["max_records"],
            f"pipeline-{state.name}",
        )
        return pipeline.start(stream_of(spark, topics), mirror, state, launch.pace)

    arguments = {
        "from_cluster_id": looked.cluster_id,
        "to_cluster_id": other.cluster_id,
        "topics": list(looked.names),
        "prefix": mirror.prefix,
    }
    usual_name = f"{pipeline.KIND}-{'-'.join(looked.names)}"[:100]
    brokers = mirror.target.bootstrap
    target = f"{brokers} {mirror.prefix}…" if mirror.prefix else brokers
    return Job(pipeline.KIND, usual_name, arguments, target, start)
