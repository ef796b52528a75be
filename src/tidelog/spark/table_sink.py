"""`format("tidelog_table")`: a stream into a Delta, Iceberg or Parquet table, exactly once.

Our own pipelines register it; there is nothing of Tidelog's topics in it. Options: `path`,
`tableFormat` (delta, parquet, iceberg) and `partitionBy` (columns with commas between them).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, WriterCommitMessage

from tidelog.spark.failure import InvalidOption
from tidelog.spark.options import Options
from tidelog.spark.spark_releases import StreamArrowWriter, as_batches
from tidelog.spark.tables.forms import open_table
from tidelog.spark.tables.words import (
    DELTA,
    FORMS,
    BatchFiles,
    BatchId,
    TableSpec,
    WrittenFile,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

NAME = "tidelog_table"
KNOWN = ("path", "tableFormat", "partitionBy", "checkpointLocation", "queryName")


@dataclass(frozen=True)
class TaskFiles(WriterCommitMessage):
    """What one task wrote, and for which batch: commit() is not told whose it is."""

    batch: BatchId
    files: tuple[WrittenFile, ...]


class TableDataSource(DataSource):
    """Only to be written to."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: "StructType", overwrite: bool
    ) -> "TableWriter":
        return TableWriter(spec_of(self.options), schema)


class TableWriter(StreamArrowWriter):
    """Pickled to tasks; made again where the driver commits. So it holds only words."""

    def __init__(self, spec: TableSpec, schema: "StructType") -> None:
        self.spec = spec
        self.schema = schema

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> TaskFiles:
        from pyspark import TaskContext  # noqa: PLC0415 - known in tasks

        from tidelog.spark.tables.files import write_files  # noqa: PLC0415 - heavy
        from tidelog.spark.tables.layouts import layout_of  # noqa: PLC0415
        from tidelog.spark.tables.schemas import table_schema  # noqa: PLC0415

        context = TaskContext.get()
        assert context is not None, "outside of a task"
        query = context.getLocalProperty("sql.streaming.queryId")
        number = context.getLocalProperty("streaming.sql.batchId")
        assert query is not None, "the task belongs to no query"
        assert number is not None, "the task belongs to no batch"
        batch = BatchId(query, int(number))
        name = f"part-{batch.number:05d}-{context.partitionId():05d}"
        layout = layout_of(self.spec, batch)
        rows = as_batches(iterator, self.schema)
        return TaskFiles(batch, write_files(layout, table_schema(self.schema), name, rows))

    def commit(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - passed by name
    ) -> None:
        from tidelog.spark.tables.schemas import table_schema  # noqa: PLC0415

        written = [each for each in messages if isinstance(each, TaskFiles)]
        if not written:
            return
        batch = written[0].batch
        assert batch.number == batchId, f"files of batch {batch.number} in batch {batchId}"
        files = tuple(file for each in written for file in each.files)
        open_table(self.spec).commit(table_schema(self.schema), BatchFiles(batch, files))

    def abort(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803
    ) -> None:
        """Also called when commit() failed after the table had taken the batch: no file may be
        removed. Those that no commit names are in no table."""


def spec_of(values: Mapping[str, str]) -> TableSpec:
    options = Options(values)
    options.refuse_unknown(KNOWN, ())
    path = options.required("path", "say where the table lies")
    if "://" in path:
        raise InvalidOption(f"the path {path} is not a directory", "give a local directory")
    form = options.one_of("tableFormat", DELTA, FORMS)
    columns = (options.text("partitionBy") or "").split(",")
    return TableSpec(path, form, tuple(each.strip() for each in columns if each.strip()))


def register_table_sink(spark: "SparkSession") -> None:
    spark.dataSource.register(TableDataSource)
