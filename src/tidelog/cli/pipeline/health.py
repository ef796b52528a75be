"""`tidelog pipeline health`"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.asking import Asking, asks_cluster
from tidelog.cli.durations import DURATION
from tidelog.cli.failure import USAGE, CommandError
from tidelog.cli.lazy import output_option, shared_options
from tidelog.cli.output import duration, plural, print_json
from tidelog.cli.pipeline.archive import local_directory
from tidelog.cli.pipeline.launching import Launch, runs_spark, session, spoken
from tidelog.cli.pipeline.topic_check import access_of
from tidelog.cli.tables import Column, show
from tidelog.cli.times import moment
from tidelog.client import Client, KafkaError, TopicView
from tidelog.core.errors import Error
from tidelog.spark.pipelines import health as pipeline
from tidelog.spark.pipelines.health_events import EVENTS_TOPIC
from tidelog.spark.pipelines.running import asked_to_stop, follow, noting_failure
from tidelog.spark.pipelines.state import FINISHED, PipelineState
from tidelog.spark.security_options import Access
from tidelog.survey.topics import named_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITION_COLUMNS = (
    Column("PARTITION", "name"),
    Column("LEADER", "leader"),
    Column("EPOCH", "leader_epoch"),
    Column("ISR", "isr"),
    Column("UNDER-REPLICATED", "under"),
    Column("OFFLINE", "offline"),
    Column("LEFT ISR", "isr_left"),
    Column("BACK", "isr_joined"),
    Column("LEADERS", "leader_changes"),
    Column("LONGEST GAP", "gap"),
    Column("LAG", "lag_last"),
)
CHANGE_COLUMNS = (
    Column("WHEN", "at"),
    Column("PARTITION", "name"),
    Column("FROM", "from"),
    Column("TO", "to"),
    Column("EPOCH", "leader_epoch"),
    Column("WHY", "why"),
    Column("LEADERLESS", "leaderless"),
    Column("NO APPEND FOR", "gap"),
)
BROKER_COLUMNS = (
    Column("BROKER", "broker"),
    Column("LEADS", "leads"),
    Column("PREFERRED", "preferred"),
    Column("IN SYNC", "in_sync"),
    Column("OUT OF SYNC", "out_of_sync"),
    Column("FENCED", "fenced"),
    Column("LEFT ISR", "isr_left"),
    Column("MOST LAG", "lag_max"),
    Column("TRUNCATED", "truncated_records"),
)
CHANGES_SHOWN = 20


@click.command(name="health")
@click.option("--to", "to", metavar="DIR", help="Keep events and figures there, as Delta tables.")
@click.option("--plot", "plot", metavar="DIR", help="Pictures and a page with all of it.")
@click.option("--every", "every_ms", type=DURATION, help="Look again and again; once if not given.")
@click.option("--once", is_flag=True, help="Look once, as without --every.")
@click.option("--internal", is_flag=True, help="Tell of topics that begin with __ too.")
@runs_spark
@asks_cluster
@output_option
@shared_options
def command(asking: Asking, launch: Launch, **given: Any) -> None:
    """Tell how a cluster has fared: failovers, ISR, lag and balance, from its own events.

    \b
    Examples:
      tidelog pipeline health
      tidelog pipeline health --to lake/health --every 60s
      tidelog pipeline health --plot report

    Brokers write their events into a topic with tidelog.events.topic.enable=true, as those of
    `tidelog up` do. With --to they are kept longer than that topic keeps them.
    """
    check_given(given)
    to = None if given["to"] is None else Path(local_directory(given["to"]))
    plot = None if given["plot"] is None else Path(local_directory(given["plot"]))
    looks = Looks(asking.located(), to, plot)
    topics, cluster_id = looks.topics()
    with spoken(), launch.state(pipeline.KIND) as state, session(launch, state) as spark:
        arguments = {"cluster_id": cluster_id, "to": str(to) if to else None}
        state.begin(pipeline.KIND, arguments, spark=spark.sparkContext.master or launch.spark_url)
        with noting_failure(state), asked_to_stop() as asked:
            while True:
                show_report(looks.look(spark, state, topics), given)
                if given["every_ms"] is None or asked.wait(given["every_ms"] / 1000):
                    break
                topics, _ = looks.topics()
            if asked.is_set():
                raise KeyboardInterrupt
        state.turned(FINISHED)


def check_given(given: dict[str, Any]) -> None:
    """What can be judged without asking anybody."""
    if given["once"] and given["every_ms"] is not None:
        raise CommandError(
            "--once and --every contradict each other",
            why="one says once, the other again and again",
            advice="one of the two",
            code=USAGE,
        )


class Looks:
    """How to look, once or again."""

    __slots__ = ("_asking", "_plot", "_to")

    def __init__(self, asking: Asking, to: Path | None, plot: Path | None) -> None:
        self._asking = asking
        self._to = to
        self._plot = plot

    def topics(self) -> tuple[list[TopicView], str | None]:
        """The topics that exist; an error if nobody writes events."""

        async def ask(client: Client) -> tuple[list[TopicView], str | None]:
            try:
                await named_topic(client, EVENTS_TOPIC)
            except KafkaError as error:
                if error.error != Error.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                raise CommandError(
                    f"there is no topic {EVENTS_TOPIC}",
                    why="brokers write their events only if they are told to",
                    advice="tidelog.events.topic.enable=true in server.properties of each",
                ) from None
            view = await client.view()
            return list(view.topics.values()), view.cluster_id

        return self._asking.run(ask)

    def look(
        self, spark: "SparkSession", state: PipelineState, topics: list[TopicView]
    ) -> pipeline.Report:
        access = access_of(self._asking)
        if self._to is None:
            events = pipeline.events_of_topic(spark, access)
        else:
            events = self._kept(spark, access, self._to, state)
        found, made = pipeline.report(spark, events, topics)
        state.note(rows_in=found.events)
        if self._to is not None:
            pipeline.keep_figures(made, self._to)
        if self._plot is not None:
            from tidelog.spark.pipelines.health_page import write_page

            click.echo(f"written: {write_page(found, self._plot)}", err=True)
        return found

    def _kept(self, spark: "SparkSession", access: Access, to: Path, state: PipelineState) -> Any:
        run = follow(pipeline.keep_events(spark, access, to, state), state, lambda batch: None)
        if run.interrupted:
            raise KeyboardInterrupt
        events = pipeline.kept_events(spark, to)
        return pipeline.events_of_topic(spark, access) if events is None else events


def show_report(report: pipeline.Report, given: dict[str, Any]) -> None:
    document = as_document(report)
    if given["output"] == "json":
        print_json(document)
        return
    told = [each for each in document["partitions"] if given["internal"] or not is_internal(each)]
    changes = [
        each for each in document["leader_changes"] if given["internal"] or not is_internal(each)
    ]
    click.echo(head_of(document))
    show("text", document, PARTITION_COLUMNS, told)
    if changes:
        left_out = len(changes) - CHANGES_SHOWN
        click.echo(f"\n{plural(len(changes), 'leader change')}" + (
            f", the last {CHANGES_SHOWN}:" if left_out > 0 else ":"
        ))  # fmt: skip
        show("text", document, CHANGE_COLUMNS, changes[-CHANGES_SHOWN:])
    click.echo()
    show("text", document, BROKER_COLUMNS, document["brokers"])


def as_document(report: pipeline.Report) -> dict[str, Any]:
    """What `-o json` prints: figures with their names; pictures need the rest."""
    return {
        "events": report.events,
        "from_ms": report.from_ms,
        "until_ms": report.until_ms,
        "partitions": [partition_row(each) for each in report.partitions if each["exists"]],
        "leader_changes": [change_row(each) for each in report.leader_changes],
        "replicas": [{**each, "name": name_of(each)} for each in report.replicas],
        "brokers": report.brokers,
    }


def name_of(row: dict[str, Any]) -> str:
    return f"{row['topic']}-{row['index']}"


def is_internal(row: dict[str, Any]) -> bool:
    return bool(row["topic"].startswith("__"))


def partition_row(row: dict[str, Any]) -> dict[str, Any]:
    times = row["under_times"]
    under = f"{duration(row['under_ms'] / 1000)} in {plural(times, 'time')}" if times else "never"
    return {
        **row,
        "name": name_of(row),
        "leader": None if row["leader"] == -1 else row["leader"],
        "under": f"{under}, now" if row["is_under"] else under,
        "offline": duration(row["offline_ms"] / 1000) if row["offline_ms"] else None,
        "gap": milliseconds(row["gap_max_ms"]),
    }


def change_row(row: dict[str, Any]) -> dict[str, Any]:
    return {
        **row,
        "name": name_of(row),
        "at": moment(row["elected_ms"]),
        "why": f"{row['cause']}, unclean" if row["unclean"] else row["cause"],
        "leaderless": milliseconds(row["leaderless_ms"]),
        "gap": milliseconds(row["gap_ms"]),
    }


def milliseconds(number: int | None) -> str | None:
    if number is None:
        return None
    return f"{number} ms" if number < 10_000 else duration(number / 1000)


def head_of(document: dict[str, Any]) -> str:
    """`12 min of events until … · 3 brokers · 7 partitions, 1 under-replicated · …`"""
    if document["until_ms"] is None:
        return "no events yet"
    span = duration((document["until_ms"] - document["from_ms"]) / 1000)
    under = sum(each["is_under"] for each in document["partitions"])
    state = f"{under} under-replicated" if under else "all in sync"
    changes = document["leader_changes"]
    hidden = sum(map(is_internal, changes))
    return " · ".join(
        [
            f"{span} of events until {moment(document['until_ms'])}",
            plural(len(document["brokers"]), "broker"),
            f"{plural(len(document['partitions']), 'partition')}, {state}",
            plural(len(changes), "leader change") + (f", {hidden} internal" if hidden else ""),
        ]
    )
