"""Files in an object store as rows of Spark, without a jar: tasks read them with pyarrow."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.spark.tables.files import NO_VALUE
from tidelog.spark.tables.store_options import StoreOptions
from tidelog.spark.tables.stores import Store, told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_ROWS = 10_000


def read_files(
    spark: "SparkSession", options: StoreOptions, schema: pa.Schema, files: list[str]
) -> "DataFrame":
    """A task for each file, but not thousands."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - pyspark is an extra

    tasks = min(len(files), max(spark.sparkContext.defaultParallelism * 4, 1))
    paths = spark.createDataFrame([(each,) for each in files], "path STRING").repartition(tasks)
    plain = pa.schema([pa.field(each.name, without_views(each.type)) for each in schema])
    return paths.mapInArrow(reader_of(options, plain), from_arrow_schema(plain))


def reader_of(
    options: StoreOptions, schema: pa.Schema
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch.column(0).to_pylist():
                yield from rows_of(Store(path, options), schema)

    return read


def rows_of(file: Store, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """With the columns of the table: those that are in the name of the file's directory alone, and
    null for those that were added later."""
    named = values_in(file.place)
    with told(file, "cannot read"):
        filesystem, path = file.filesystem()
        with filesystem.open_input_file(path) as source:
            for found in pq.ParquetFile(source).iter_batches(BATCH_ROWS):
                columns = [_column(found, each, named) for each in schema]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(found: pa.RecordBatch, field: pa.Field, named: dict[str, Any]) -> pa.Array:
    if field.name in found.schema.names:
        return found.column(field.name).cast(field.type)
    return pa.array([named.get(field.name)] * found.num_rows, pa.string()).cast(field.type)


def values_in(path: str) -> dict[str, str | None]:
    """Of `…/date=2026-11-16/part.parquet`."""
    parts = (each.partition("=") for each in path.split("/")[:-1])
    return {
        name: None if value == NO_VALUE else unquote(value) for name, mark, value in parts if mark
    }


def without_views(kind: pa.DataType) -> pa.DataType:
    """Types that Spark knows: delta-rs tells of views and large offsets."""
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_binary_view(kind) or pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(without_views(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, without_views(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(without_views(kind.key_type), without_views(kind.item_type))
    return kind
