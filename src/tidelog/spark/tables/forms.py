"""Which form a table has. Each is imported when it is used: they need packages of their own."""

from typing import TYPE_CHECKING, Any

from tidelog.spark.failure import InvalidOption
from tidelog.spark.tables.stores import is_local
from tidelog.spark.tables.words import DELTA, FORMS, ICEBERG, PARQUET, Table, TableSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def open_table(spec: TableSpec) -> Table:
    table: Table = _form(spec)(spec)
    return table


def _form(spec: TableSpec) -> Any:
    name = spec.form
    if name == DELTA:
        from tidelog.spark.tables.delta import DeltaForm  # noqa: PLC0415

        return DeltaForm
    if name == ICEBERG:
        from tidelog.spark.tables.iceberg import IcebergForm  # noqa: PLC0415

        return IcebergForm
    if name == PARQUET and not is_local(spec.path):
        raise InvalidOption(
            f"plain Parquet cannot be written to {spec.path}: a store has no rename, so readers "
            "would see files of attempts that failed",
            "--format delta or iceberg, which name their files",
        )
    if name == PARQUET:
        from tidelog.spark.tables.parquet import ParquetForm  # noqa: PLC0415

        return ParquetForm
    raise InvalidOption(f"there is no table format {name!r}", f"one of {', '.join(FORMS)}")


def read_table(spark: "SparkSession", spec: TableSpec) -> "DataFrame | None":
    """The table as it is now; None if it has no files. Spark's own Parquet reader reads
    directories, pyarrow reads object stores, for which Spark would need jars."""
    table = open_table(spec)
    files = table.active_files()
    if not files:
        return None
    if not spec.store.is_local:
        from tidelog.spark.tables.reading import read_files  # noqa: PLC0415 - pyarrow

        schema = table.schema()
        assert schema is not None, "a table with files has columns"
        return read_files(spark, spec.options, schema, files)
    reader = spark.read.option("mergeSchema", "false")
    if spec.form != ICEBERG:
        reader = reader.option("basePath", spec.path)
    return reader.parquet(*files)
