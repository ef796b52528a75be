"""Which form a table has. Each is imported when it is used: they need packages of their own."""

from typing import TYPE_CHECKING, Any

from tidelog.spark.failure import InvalidOption
from tidelog.spark.tables.words import DELTA, FORMS, ICEBERG, PARQUET, Table, TableSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def open_table(spec: TableSpec) -> Table:
    table: Table = _form(spec.form)(spec)
    return table


def _form(name: str) -> Any:
    if name == DELTA:
        from tidelog.spark.tables.delta import DeltaForm  # noqa: PLC0415

        return DeltaForm
    if name == ICEBERG:
        from tidelog.spark.tables.iceberg import IcebergForm  # noqa: PLC0415

        return IcebergForm
    if name == PARQUET:
        from tidelog.spark.tables.parquet import ParquetForm  # noqa: PLC0415

        return ParquetForm
    raise InvalidOption(f"there is no table format {name!r}", f"one of {', '.join(FORMS)}")


def read_table(spark: "SparkSession", spec: TableSpec) -> "DataFrame | None":
    """The table as it is now, through Spark's own Parquet reader; None if it has no files."""
    files = open_table(spec).active_files()
    if not files:
        return None
    reader = spark.read.option("mergeSchema", "false")
    if spec.form != ICEBERG:
        reader = reader.option("basePath", spec.path)
    return reader.parquet(*files)
