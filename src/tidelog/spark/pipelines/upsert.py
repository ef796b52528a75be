"""The current state of topics as a table: what their changes have led to, each once."""

from typing import TYPE_CHECKING

from tidelog.spark.changes import words
from tidelog.spark.changes.words import BUCKET, ChangeRules
from tidelog.spark.dead_letter_words import STOP
from tidelog.spark.failure import InvalidOption
from tidelog.spark.pipelines.archive import REASON, Archive, BadRecords, check_history
from tidelog.spark.pipelines.batches import RECORDS
from tidelog.spark.pipelines.running import Pace, paced
from tidelog.spark.pipelines.state import PipelineState
from tidelog.spark.tables.forms import open_table
from tidelog.spark.tables.words import DELTA, ICEBERG, TableSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from tidelog.spark.upsert_sink import Upsert

KIND = "upsert"
FORMS = (DELTA, ICEBERG)
TASKS_MAX = 8
"""Buckets are shared out among so many: each task is a process that has to be started."""


def start(
    rows: "DataFrame",
    upsert: "Upsert",
    bad: BadRecords,
    state: PipelineState,
    pace: Pace,
) -> "StreamingQuery":
    """Rows as they come from the connector."""
    from pyspark.sql.functions import expr  # noqa: PLC0415 - pyspark is an extra
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415

    from tidelog.spark.changes import envelopes  # noqa: PLC0415 - pyarrow
    from tidelog.spark.empty_headers import with_empty_headers  # noqa: PLC0415 - pyarrow
    from tidelog.spark.table_sink import sink_options  # noqa: PLC0415 - pyspark
    from tidelog.spark.tables.schemas import table_schema  # noqa: PLC0415
    from tidelog.spark.upsert_sink import NAME, register_upsert_sink  # noqa: PLC0415

    register_upsert_sink(rows.sparkSession)
    value = table_schema(rows.schema).field("value").type
    row = envelopes.row_schema(value, upsert.rules)
    table = open_table(upsert.table)
    check_history(table, Archive(upsert.table), state)
    columns = envelopes.table_columns(row)
    if table.exists():
        table.grow(columns)
    table.prepare(columns)
    as_changes = envelopes.ToChanges(upsert.rules, bad.action == STOP).all_of
    changes = with_empty_headers(rows).mapInArrow(
        as_changes, from_arrow_schema(envelopes.change_columns(row))
    )
    if bad.action != STOP:
        count = f"count_if({REASON} IS NOT NULL) AS {RECORDS}"
        changes = changes.observe(bad.counted_as, expr(count))
    tasks = min(upsert.rules.buckets, TASKS_MAX)
    writer = (
        with_empty_headers(changes, words.HEADERS)
        .repartition(tasks, BUCKET)
        .writeStream.format(NAME)
        .options(**sink_options(upsert.table), **bad.options(), **upsert.options())
        .option("pipeline", state.name)
        .option("checkpointLocation", state.checkpoint.location())
        .queryName(state.name)
    )
    return paced(writer, pace).start()


def check_rules(rules: ChangeRules, value_format: str) -> None:
    """What can be told before anything is started."""
    if rules.form == words.DEBEZIUM and value_format not in ("json", "avro"):
        raise InvalidOption(
            f"change events of Debezium are not {value_format}",
            "--value-format json with the --schema of the rows, or --value-format avro",
        )
    for what, columns in (("key", rules.key), ("order by", rules.order_by)):
        if len(set(columns)) < len(columns):
            raise InvalidOption(f"a column to {what} is named twice", "name each once")


def check_form(table: TableSpec) -> None:
    if table.form not in FORMS:
        raise InvalidOption(
            f"a table of the form {table.form} cannot follow changes",
            f"--format {' or '.join(FORMS)}: readers of those see files replaced as a whole",
        )
