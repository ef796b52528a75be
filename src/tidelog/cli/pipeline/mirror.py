"""`tidelog pipeline mirror`"""

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tidelog.cli.asking import Asking, read_command_config
from tidelog.cli.durations import DURATION
from tidelog.cli.failure import USAGE, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.pipeline.launching import (
    Beside,
    Job,
    Launch,
    launch_job,
    runs_pipeline,
    spoken,
)
from tidelog.cli.pipeline.topic_check import (
    Looked,
    check_pattern,
    check_topics,
    look_at,
    names_topics,
)
from tidelog.client import Client
from tidelog.spark.failure import TidelogError
from tidelog.spark.pipelines import mirror as pipeline
from tidelog.spark.pipelines.events import GROUPS
from tidelog.spark.pipelines.group_offsets import GroupOffsets, GroupSync, Mirrored
from tidelog.spark.pipelines.lag_group import usual_group
from tidelog.spark.pipelines.names import UsualName
from tidelog.spark.pipelines.topics import EARLIEST, LATEST, Topics, stream_of
from tidelog.spark.topics import compiled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tidelog.spark.pipelines.state import PipelineState


@click.command(name="mirror")
@names_topics
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
    "--groups",
    metavar="EXPRESSION",
    help="Translate what groups whose whole name matches have committed.",
)
@click.option(
    "--groups-every",
    "groups_every_ms",
    type=DURATION,
    default="10s",
    show_default=True,
    help="How often; at the end in any case.",
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
      tidelog pipeline mirror --from a:9092 --to b:9092 --pattern 'orders-.*' --groups '.*'

    Topics that are missing over there are made with as many partitions. Goes on until Ctrl-C
    unless --once is given, and where it was when it is started again. A group that is used over
    there is left alone.
    """
    check_given(given)
    here, there = (
        Asking(given[side], given["timeout_ms"], read_command_config(given[f"{side}_config"]))
        for side in ("source", "target")
    )
    looked = look_at(here, given["topics"], given["pattern"])
    other = look_at(there, ())
    with spoken():
        check_sides(looked, other, given["prefix"])
    job = make_job(Sides(here, there), looked, other, given)
    context.exit(launch_job(launch, job, given["output"]))


class Sides(NamedTuple):
    here: Asking
    there: Asking


def check_given(given: dict[str, Any]) -> None:
    """What can be judged without asking anybody."""
    check_topics(given)
    if given["groups"] is not None:
        check_pattern("--groups", given["groups"])
    prefix = given["prefix"]
    if not re.fullmatch(r"[A-Za-z0-9._-]*", prefix):
        raise CommandError(
            f"wrong value for --prefix: {prefix}",
            why="names of topics are letters, digits, dots, dashes and underscores",
            advice="--prefix copy.",
            code=USAGE,
        )


def check_sides(looked: Looked, other: Looked, prefix: str) -> None:
    same = looked.cluster_id == other.cluster_id and looked.cluster_id is not None
    if same and not prefix:
        raise pipeline.into_itself()
    if same and looked.pattern is not None:
        raise CommandError(
            "--pattern cannot be mirrored within one cluster",
            why="copies may match it too, and would be copied again and again",
            advice="name the topics",
            code=USAGE,
        )


def make_topics(sides: Sides, looked: Looked, prefix: str) -> None:
    """Those that are not there yet; for a pattern, also those that are new."""
    if looked.pattern is not None:
        looked = look_at(sides.here, (), looked.pattern)

    async def from_here(source: Client) -> None:
        there = sides.there
        assert there.bootstrap is not None, "--to is required"
        async with Client(
            there.bootstrap, timeout_ms=there.timeout_ms, properties=there.properties
        ) as target:
            for place in await pipeline.places(source, target, looked.topics, prefix):
                if await pipeline.make_target(source, target, place):
                    made = f"made the topic {place.target} on {there.bootstrap}"
                    click.echo(made, err=True)

    sides.here.run(from_here)


def make_job(sides: Sides, looked: Looked, other: Looked, given: dict[str, Any]) -> Job:
    prefix = given["prefix"]
    mirror = pipeline.Mirror(other.access, prefix, looked.cluster_id)

    def check(state: "PipelineState") -> None:
        with spoken():
            make_topics(sides, looked, prefix)

    def start(spark: "SparkSession", state: "PipelineState", launch: Launch) -> "StreamingQuery":
        topics = Topics(
            looked.access,
            looked.names,
            given["starting"],
            given["max_records"],
            f"pipeline-{state.name}",
            pattern=looked.pattern,
        )
        return pipeline.start(stream_of(spark, topics), mirror, state, launch.pace)

    def again(error: TidelogError) -> bool:
        """A topic is new here, or has new partitions, and is made over there in time to go on."""
        if looked.pattern is None or not error.what.startswith(NEW_TOPIC):
            return False
        try:
            make_topics(sides, looked, prefix)
        except CommandError as failure:
            raise TidelogError(f"{failure.what}: {failure.why}", failure.advice) from None
        return True

    place = {"to_cluster_id": other.cluster_id, "prefix": prefix}
    arguments = {"from_cluster_id": looked.cluster_id, **place, **looked.arguments()}
    name = UsualName(pipeline.KIND, looked.sources, place)
    brokers = mirror.target.bootstrap
    target = f"{brokers} {prefix}…" if prefix else brokers
    return Job(
        name,
        arguments,
        target,
        looked.access,
        start,
        again,
        check,
        lambda state: groups_beside(state, looked, mirror, given),
    )


NEW_TOPIC = "there is no topic "


def groups_beside(
    state: "PipelineState", looked: Looked, mirror: pipeline.Mirror, given: dict[str, Any]
) -> Beside:
    """Offsets of groups, translated while batches go on."""
    if given["groups"] is None:
        return Beside()
    assert mirror.source_id is not None, "a cluster has an id"
    matches = compiled(given["groups"]).fullmatch
    own = usual_group(state.name)

    def wanted(group: str) -> bool:
        return not group.startswith(own) and matches(group) is not None

    def note(groups: dict[str, Any]) -> None:
        state.note(groups=groups)
        state.events.add(GROUPS, {"name": state.name, "groups": groups})

    mirrored = Mirrored(looked.access, mirror.target, mirror.source_id, mirror.prefix, wanted)
    sync = GroupSync(
        GroupOffsets(mirrored),
        given["groups_every_ms"] / 1000,
        lambda words: click.echo(words, err=True),
        note,
    )
    return Beside(sync.between, sync.now)
