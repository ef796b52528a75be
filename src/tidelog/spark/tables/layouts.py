"""Where and how tasks write the files of each form. Needs none of the packages that commit."""

from tidelog.spark.tables.files import Layout
from tidelog.spark.tables.stores import Store
from tidelog.spark.tables.words import ICEBERG, PARQUET, BatchId, TableSpec

OURS = "_tidelog"


def layout_of(spec: TableSpec, batch: BatchId) -> Layout:
    if spec.form == ICEBERG:
        return Layout(
            iceberg_data(spec), spec.partition_by, keeps_columns=True, by_directories=False
        )
    if spec.form == PARQUET:
        return Layout(staged(spec, batch), spec.partition_by)
    return Layout(spec.store, spec.partition_by)


def iceberg_data(spec: TableSpec) -> Store:
    return spec.store.below("data")


def staged(spec: TableSpec, batch: BatchId) -> Store:
    """Readers of Parquet skip what begins with an underscore."""
    return spec.store.below(OURS, "staged", f"{batch.query}-{batch.number}")


def memory_of(spec: TableSpec, name: str) -> Store:
    """What belongs to a data file and is for no reader: readers skip what begins with an
    underscore, and so does who removes files that are not in the table."""
    return spec.store.below(OURS, "memory", name.rpartition("/")[2])
