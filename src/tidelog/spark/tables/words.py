"""The words that all forms of tables share."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tidelog.spark.tables.store_options import StoreOptions
from tidelog.spark.tables.stores import Store

if TYPE_CHECKING:
    import pyarrow as pa

DELTA, PARQUET, ICEBERG = "delta", "parquet", "iceberg"
FORMS = (DELTA, PARQUET, ICEBERG)


class CatalogTable(NamedTuple):
    """Under which name a catalog knows an Iceberg table. Shows no values: some are secrets."""

    catalog: str
    """The name of a catalog in `.pyiceberg.yaml`, or the URI of one."""
    table: str
    """`namespace.name`."""
    options: tuple[tuple[str, str], ...] = ()
    """Of pyiceberg."""

    def __repr__(self) -> str:
        names = ", ".join(name for name, _ in self.options)
        return f"CatalogTable({self.table}{', ' if names else ''}{names})"


class TableSpec(NamedTuple):
    """Which table: where it lies, in which form, and by which columns its files are sorted. Goes to
    tasks."""

    path: str
    """A directory, or the URI of a place in an object store, as `stores.located` writes it."""
    form: str
    partition_by: tuple[str, ...] = ()
    options: StoreOptions = StoreOptions()
    catalog: CatalogTable | None = None
    """Of Iceberg; None: a file in the directory."""

    @property
    def store(self) -> Store:
        return Store(self.path, self.options)


class WrittenFile(NamedTuple):
    """A Parquet file that a task has finished."""

    name: str
    """Below the directory that the form of the table gives to tasks."""
    size_bytes: int
    rows: int
    values: tuple[tuple[str, str | None], ...]
    """What all its rows have in the columns that the table is partitioned by."""
    statistics: str
    """As Delta's log wants them: JSON with smallest and largest values."""


class BatchId(NamedTuple):
    """Which micro-batch. A number alone says nothing: a fresh checkpoint begins at 0 again."""

    query: str
    number: int


class BatchFiles(NamedTuple):
    batch: BatchId
    files: tuple[WrittenFile, ...]


class Table(Protocol):
    """What differs between the forms. Made on the driver and in its commit process."""

    def exists(self) -> bool: ...

    def schema(self) -> "pa.Schema | None":
        """Its columns; None if there is no table."""

    def grow(self, schema: "pa.Schema") -> None:
        """Add the columns and fields that a table which exists has not; nothing else changes."""

    def prepare(self, schema: "pa.Schema") -> None:
        """Make the table if there is none; TidelogError if there is one of another shape."""

    def is_empty(self) -> bool: ...

    def commit(self, schema: "pa.Schema", done: BatchFiles) -> bool:
        """Put the files into the table, all of them or none. False: that batch is in it."""

    def active_files(self) -> list[str]:
        """The files that make up the table now, with their whole paths."""


def names(columns: Iterable[str]) -> str:
    """`key, value`, for messages."""
    return ", ".join(columns) or "none"
