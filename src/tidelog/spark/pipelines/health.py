"""The health of a cluster, from the events that its brokers write into a topic.

Looked at once, events are read from the topic as they are. Kept in a table, they outlive the
topic's retention: each event is in the table once, and figures are of all of them.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.client import TopicView
from tidelog.spark.pipelines.archive import Archive, start
from tidelog.spark.pipelines.health_events import EVENTS_TOPIC, parsed
from tidelog.spark.pipelines.running import Pace
from tidelog.spark.pipelines.state import PipelineState
from tidelog.spark.pipelines.topics import Topics, stream_of
from tidelog.spark.security_options import Access
from tidelog.spark.tables.forms import read_table
from tidelog.spark.tables.words import DELTA, TableSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tidelog.spark.pipelines.health_figures import Figures

KIND = "health"
EVENTS = "events"
"""The table of events within a directory; figures lie beside it under their own names."""

Rows = list[dict[str, Any]]


class Report(NamedTuple):
    """Figures as plain values."""

    events: int
    from_ms: int | None
    until_ms: int | None
    partitions: Rows
    leader_changes: Rows
    replicas: Rows
    brokers: Rows
    spans: Rows
    lag: Rows


def events_of_topic(spark: "SparkSession", access: Access) -> "DataFrame":
    """What is in the topic now."""
    reader = spark.read.format("tidelog").options(**access.options())
    reader = reader.option("subscribe", EVENTS_TOPIC)
    return parsed(reader.schema("value BINARY, offset BIGINT").load())


def keep_events(
    spark: "SparkSession", access: Access, directory: Path, state: PipelineState
) -> "StreamingQuery":
    """What is new in the topic, into the table of events."""
    topics = Topics(access, (EVENTS_TOPIC,), source_id=f"pipeline-{state.name}")
    archive = Archive(events_table(directory))
    return start(parsed(stream_of(spark, topics)), archive, state, Pace(once=True))


def kept_events(spark: "SparkSession", directory: Path) -> "DataFrame | None":
    return read_table(spark, events_table(directory))


def events_table(directory: Path) -> TableSpec:
    return TableSpec(str(directory / EVENTS), DELTA)


def report(
    spark: "SparkSession", events: "DataFrame", topics: Iterable[TopicView]
) -> tuple[Report, "Figures"]:
    """Figures of these events; `topics` are those that exist now."""
    from tidelog.spark.pipelines.health_figures import (  # noqa: PLC0415 - pyspark
        REPLICAS_SCHEMA,
        figures,
    )

    assigned = [
        (topic.topic_id.hex(), each.partition, list(each.replicas))
        for topic in topics
        for each in topic.partitions
    ]
    made = figures(events, spark.createDataFrame(assigned, REPLICAS_SCHEMA))
    order = {
        "partitions": ("topic", "index"),
        "leader_changes": ("elected_ms", "topic", "index"),
        "replicas": ("topic", "index", "broker"),
        "brokers": ("broker",),
        "spans": ("topic", "index", "partition_epoch"),
        "lag": ("topic", "index", "broker", "window_ms"),
    }
    rows: dict[str, Any] = {
        name: sorted_rows(getattr(made, name).collect(), columns) for name, columns in order.items()
    }
    (whole,) = made.facts.selectExpr("count(*)", "min(time_ms)", "max(time_ms)").collect()
    return Report(*whole, **rows), made


def sorted_rows(rows: Iterable[Any], columns: tuple[str, ...]) -> Rows:
    """Few rows: sorted here, not in another shuffle."""
    return sorted(
        (each.asDict(recursive=True) for each in rows),
        key=lambda each: tuple((each[column] is not None, each[column]) for column in columns),
    )


def keep_figures(made: "Figures", directory: Path) -> list[str]:
    """Each table of figures anew, in one step of its own; the names of the tables."""
    from deltalake import write_deltalake  # noqa: PLC0415 - an extra

    written = []
    for name in ("partitions", "leader_changes", "replicas", "brokers", "spans", "lag"):
        rows = getattr(made, name).toArrow()
        write_deltalake(str(directory / name), rows, mode="overwrite", schema_mode="overwrite")
        written.append(name)
    return written
