"""`format("tidelog_table")`: a stream into a Delta, Iceberg or Parquet table, exactly once.

Our own pipelines register it; there is nothing of Tidelog's topics in it. Options: `path` (a
directory, or a place in an object store), `tableFormat` (delta, parquet, iceberg), `partitionBy`
(columns with commas between them), for Iceberg `table`. `storeSecrets` and `catalogSecrets` (the
URI of a catalog may have a password) are JSON; Spark shows no option with such a name.

Rows that have a `badReason` are not written to the table. `onBadRecord=skip` leaves them out, and
`dead-letter` writes them to a topic (`deadLetterTopic`, and `kafka.…` for the cluster).
"""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, WriterCommitMessage

from tidelog.spark.failure import InvalidOption
from tidelog.spark.options import Options
from tidelog.spark.spark_releases import StreamArrowWriter, as_batches
from tidelog.spark.tables.forms import open_table
from tidelog.spark.tables.store_options import store_options
from tidelog.spark.tables.stores import located, scheme_of
from tidelog.spark.tables.words import (
    DELTA,
    FORMS,
    ICEBERG,
    BatchFiles,
    BatchId,
    CatalogTable,
    TableSpec,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from tidelog.spark.dead_letters import Letters
    from tidelog.spark.staging import StagedRows

NAME = "tidelog_table"
KNOWN = (
    "path",
    "tableFormat",
    "partitionBy",
    "storeSecrets",
    "catalogSecrets",
    "table",
    "checkpointLocation",
    "queryName",
    "pipeline",
    "onBadRecord",
    "deadLetterTopic",
)


@dataclass(frozen=True)
class TaskFiles(WriterCommitMessage):
    """What one task wrote, and for which batch: commit() is not told whose it is."""

    batch: BatchId
    files: tuple[Any, ...]
    """WrittenFile, or what another table sink makes of rows."""
    letters: "StagedRows | None" = None
    run_id: str = ""


class TableDataSource(DataSource):
    """Only to be written to."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: "StructType", overwrite: bool
    ) -> "TableWriter":
        letters = None
        if Options(self.options).text("onBadRecord") == "dead-letter":
            from tidelog.spark.dead_letters import letters_of  # noqa: PLC0415 - pyarrow

            letters = letters_of(self.options)
        return TableWriter(spec_of(self.options), schema, letters)


class TableWriter(StreamArrowWriter):
    """Pickled to tasks; made again where the driver commits. So it holds only words."""

    def __init__(
        self, spec: TableSpec, schema: "StructType", letters: "Letters | None" = None
    ) -> None:
        self.spec = spec
        self.schema = schema
        self.letters = letters

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> TaskFiles:
        from pyspark import TaskContext  # noqa: PLC0415 - known in tasks

        context = TaskContext.get()
        assert context is not None, "outside of a task"
        query = context.getLocalProperty("sql.streaming.queryId")
        number = context.getLocalProperty("streaming.sql.batchId")
        assert query is not None, "the task belongs to no query"
        assert number is not None, "the task belongs to no batch"
        batch = BatchId(query, int(number))
        rows = as_batches(iterator, self.schema)
        task = context.partitionId()
        if "badReason" not in self.schema.names:
            return TaskFiles(batch, self._files(batch, task, rows))
        run_id = context.getLocalProperty("spark.jobGroup.id") or query
        return self._without_bad(batch, task, rows, run_id)

    def _files(
        self, batch: BatchId, task: int, rows: Iterator["pa.RecordBatch"]
    ) -> tuple[Any, ...]:
        from tidelog.spark.empty_headers import with_null_headers  # noqa: PLC0415 - pyarrow
        from tidelog.spark.tables.files import write_files  # noqa: PLC0415 - heavy
        from tidelog.spark.tables.layouts import layout_of  # noqa: PLC0415
        from tidelog.spark.tables.schemas import table_schema  # noqa: PLC0415

        name = f"part-{batch.number:05d}-{task:05d}"
        layout, schema = layout_of(self.spec, batch), table_schema(self.schema)
        return write_files(layout, schema, name, map(with_null_headers, rows))

    def _without_bad(
        self, batch: BatchId, task: int, rows: Iterator["pa.RecordBatch"], run_id: str
    ) -> TaskFiles:
        from tidelog.spark.connection import connect  # noqa: PLC0415
        from tidelog.spark.dead_letters import LetterStage, good_rows  # noqa: PLC0415
        from tidelog.spark.staging import Attempt  # noqa: PLC0415

        letters = self.letters
        if letters is None:
            return TaskFiles(batch, self._files(batch, task, good_rows(rows, lambda bad: None)))
        client = letters.settings.client
        connection = connect(letters.settings.bootstrap, client, client.delivery_timeout_ms)
        stage = LetterStage(letters, Attempt(batch.query, batch.number, task), connection)
        try:
            good = good_rows(
                rows,
                lambda bad: stage.add(self._as_records(bad), lambda: time.time_ns() // 1_000_000),
            )
            files = self._files(batch, task, good)
            return TaskFiles(batch, files, stage.finish(run_id), run_id)
        except BaseException:
            stage.discard()
            raise

    def commit(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - passed by name
    ) -> None:
        written = [each for each in messages if isinstance(each, TaskFiles)]
        if not written:
            return
        batch = written[0].batch
        assert batch.number == batchId, f"files of batch {batch.number} in batch {batchId}"
        staged = [each.letters for each in written if each.letters is not None]
        if self.letters is not None and staged:
            from tidelog.spark.dead_letters import deliver_letters  # noqa: PLC0415

            # First: once the table has the batch, nobody comes again to write them.
            deliver_letters(self.letters, written[0].run_id, batch, staged)
        self._put(batch, tuple(file for each in written for file in each.files))

    def _put(self, batch: BatchId, files: tuple[Any, ...]) -> None:
        from tidelog.spark.tables.schemas import table_schema  # noqa: PLC0415

        open_table(self.spec).commit(table_schema(self.schema), BatchFiles(batch, files))

    def _as_records(self, bad: "pa.RecordBatch") -> "pa.RecordBatch":
        """Bad rows with the columns of records."""
        return bad

    def abort(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803
    ) -> None:
        """Also called when commit() failed after the table had taken the batch: no file of it may
        be removed. Those that no commit names are in no table."""
        for each in messages:
            if isinstance(each, TaskFiles) and each.letters is not None:
                each.letters.remove()


def spec_of(values: Mapping[str, str]) -> TableSpec:
    options = Options(values)
    options.refuse_unknown(KNOWN, ())
    path = located(options.required("path", "say where the table lies"))
    form = options.one_of("tableFormat", DELTA, FORMS)
    columns = (options.text("partitionBy") or "").split(",")
    named = tuple(each.strip() for each in columns if each.strip())
    given = store_options(scheme_of(path), json.loads(options.text("storeSecrets") or "{}"))
    return TableSpec(path, form, named, given, _catalog_of(options, form))


def _catalog_of(options: Options, form: str) -> CatalogTable | None:
    told = options.text("catalogSecrets")
    if told is None:
        return None
    if form != ICEBERG:
        raise InvalidOption(f"a {form} table is in no catalog", "leave out catalogSecrets")
    table = options.required("table", "say which table of the catalog: namespace.name")
    name, secrets = json.loads(told)
    return CatalogTable(name, table, tuple(secrets.items()))


def sink_options(spec: TableSpec) -> dict[str, str]:
    """What `spec_of` makes the same table of."""
    told = {
        "path": spec.path,
        "tableFormat": spec.form,
        "partitionBy": ",".join(spec.partition_by),
    }
    if spec.options.given:
        told["storeSecrets"] = json.dumps(spec.options.values)
    if spec.catalog is not None:
        told["table"] = spec.catalog.table
        told["catalogSecrets"] = json.dumps([spec.catalog.catalog, dict(spec.catalog.options)])
    return told


def register_table_sink(spark: "SparkSession") -> None:
    spark.dataSource.register(TableDataSource)
