"""Where and how tasks write the files of each form. Needs none of the packages that commit."""

from pathlib import Path

from tidelog.spark.tables.files import Layout
from tidelog.spark.tables.words import ICEBERG, PARQUET, BatchId, TableSpec

OURS = "_tidelog"


def layout_of(spec: TableSpec, batch: BatchId) -> Layout:
    if spec.form == ICEBERG:
        directory = iceberg_data(spec)
        return Layout(directory, spec.partition_by, keeps_columns=True, by_directories=False)
    if spec.form == PARQUET:
        return Layout(staged(spec, batch), spec.partition_by)
    return Layout(Path(spec.path), spec.partition_by)


def iceberg_data(spec: TableSpec) -> Path:
    return Path(spec.path) / "data"


def staged(spec: TableSpec, batch: BatchId) -> Path:
    """Readers of Parquet skip what begins with an underscore."""
    return Path(spec.path) / OURS / "staged" / f"{batch.query}-{batch.number}"
