"""Topics into a table, exactly once: every committed record is one row, now and after a crash."""

from typing import TYPE_CHECKING, NamedTuple

from tidelog.spark.dead_letter_words import DEAD_LETTER, SKIP, STOP
from tidelog.spark.failure import InvalidOption, TidelogError
from tidelog.spark.pipelines.batches import DEAD_LETTERS, RECORDS, SKIPPED
from tidelog.spark.pipelines.running import Pace, paced
from tidelog.spark.pipelines.state import PipelineState
from tidelog.spark.security_options import Access
from tidelog.spark.tables.forms import open_table
from tidelog.spark.tables.words import Table, TableSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

KIND = "archive"
REASON = "badReason"

DERIVED = {
    "date": "date_from_unix_date(int(floor(unix_seconds(timestamp) / 86400)))",
    "hour": "int(pmod(floor(unix_seconds(timestamp) / 3600), 24))",
}
"""Columns that a table has only if it is partitioned by them; in UTC, whatever the session says."""
PARTITION_COLUMNS = ("topic", "partition", *DERIVED)


class BadRecords(NamedTuple):
    """What becomes of records that cannot be decoded, if rows tell of them."""

    action: str = STOP
    topic: str | None = None
    """Where they go; None: the name of the topic with `.dead-letters` after it."""
    cluster: Access | None = None

    @property
    def counted_as(self) -> str:
        return SKIPPED if self.action == SKIP else DEAD_LETTERS

    def options(self) -> dict[str, str]:
        """Of the sink."""
        if self.action != DEAD_LETTER:
            return {}
        assert self.cluster is not None, "dead letters go to a cluster"
        topic = {} if self.topic is None else {"deadLetterTopic": self.topic}
        return {"onBadRecord": DEAD_LETTER, **topic, **self.cluster.options()}


class Archive(NamedTuple):
    table: TableSpec
    appends: bool = False
    """Whether it may begin in a table that has rows of others."""
    bad: BadRecords = BadRecords()
    grows: bool = False
    """Whether columns are added to a table that has not all of them."""


def check_partition_by(columns: tuple[str, ...]) -> None:
    for column in columns:
        if column not in PARTITION_COLUMNS:
            raise InvalidOption(
                f"a table cannot be partitioned by {column}",
                f"by one or more of {', '.join(PARTITION_COLUMNS)}",
            )
    if len(set(columns)) < len(columns):
        raise InvalidOption("a column to partition by is named twice", "name each once")


def start(
    rows: "DataFrame", archive: Archive, state: PipelineState, pace: Pace
) -> "StreamingQuery":
    """Rows as they come from the connector, or whatever has a timestamp where it is needed."""
    from pyspark.sql.functions import expr  # noqa: PLC0415 - pyspark is an extra

    from tidelog.spark.empty_headers import with_empty_headers  # noqa: PLC0415 - pyarrow
    from tidelog.spark.table_sink import (  # noqa: PLC0415 - pyspark
        NAME,
        register_table_sink,
        sink_options,
    )
    from tidelog.spark.tables.schemas import table_schema  # noqa: PLC0415

    register_table_sink(rows.sparkSession)
    spec = archive.table
    shaped = with_empty_headers(with_derived(rows, spec.partition_by))
    table = open_table(spec)
    check_history(table, archive, state)
    columns = table_schema(shaped.schema)
    if archive.grows and table.exists():
        table.grow(columns)
    table.prepare(columns)
    if REASON in shaped.columns:
        count = f"count_if({REASON} IS NOT NULL) AS {RECORDS}"
        shaped = shaped.observe(archive.bad.counted_as, expr(count))
    writer = (
        shaped.writeStream.format(NAME)
        .options(**archive.bad.options())
        .option("pipeline", state.name)
        .options(**sink_options(spec))
        .option("checkpointLocation", state.checkpoint.location())
        .queryName(state.name)
    )
    return paced(writer, pace).start()


def with_derived(rows: "DataFrame", partition_by: tuple[str, ...]) -> "DataFrame":
    wanted = [f"{DERIVED[each]} AS {each}" for each in partition_by if each in DERIVED]
    return rows.selectExpr("*", *wanted)


def check_history(table: Table, archive: Archive, state: PipelineState) -> None:
    """A checkpoint and its table belong together: one without the other loses or doubles rows."""
    path = archive.table.path
    last = state.committed_batch()
    if last is not None and not table.exists():
        raise TidelogError(
            f"{state.name} has written {last + 1} batches, and there is no table at {path}",
            f"bring the table back, or remove {state.checkpoint.shown} to begin anew",
        )
    if not state.has_begun() and not archive.appends and table.exists() and not table.is_empty():
        raise TidelogError(
            f"the table at {path} has rows, and {state.name} has no checkpoint: "
            "they may be the same records",
            "write to another directory, or say --append if they are not",
        )


def value_type(
    spec: TableSpec, registry: str, form: str, subjects: tuple[str, ...]
) -> "pa.DataType":
    """The type of values with schemas: what all versions have, and what the table has already."""
    import pyarrow as pa  # noqa: PLC0415 - an extra

    from tidelog.spark.registry_values import type_of_subjects  # noqa: PLC0415
    from tidelog.spark.schema_types import grown  # noqa: PLC0415

    wanted = type_of_subjects(registry, form, subjects)
    there = open_table(spec).schema()
    if there is None or not pa.types.is_struct(there.field("value").type):
        return wanted
    return grown(there.field("value").type, wanted, spec.path)
