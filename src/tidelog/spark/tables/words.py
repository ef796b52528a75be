"""The words that all forms of tables share."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from tidelog.spark.failure import TidelogError
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


class TableFile(NamedTuple):
    """A file that makes up a table now."""

    path: str
    """Whole, for readers."""
    name: str
    """As the table's own log has it."""
    size_bytes: int
    rows: int
    values: tuple[tuple[str, str | None], ...]
    """What all its rows have in the columns that the table is partitioned by."""
    offsets: tuple[int, int] | None = None
    """The smallest and the largest in the column `offset`; None: the log does not say."""


class Replacement(NamedTuple):
    """Files that take the place of others, in one commit."""

    batch: BatchId | None
    """None: the rows stay what they are, only their files are others."""
    removed: tuple[TableFile, ...]
    added: tuple[WrittenFile, ...]


OVERTAKEN: Final = "was changed by another writer meanwhile"


class Overtaken(TidelogError):  # noqa: N818 - says what happened, not that code failed
    """Files that were to be replaced are not what the table has now; nothing was changed."""

    def __init__(self, path: str, version: object) -> None:
        self._told = path, version
        super().__init__(
            f"the table at {path} {OVERTAKEN}: it is at {version}", "start again: nothing is lost"
        )

    def __reduce__(self) -> tuple[type["Overtaken"], tuple[str, object]]:  # type: ignore[override]
        return type(self), self._told


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

    def last_batch(self, query: str) -> int | None:
        """The number of the last batch of a query that is in the table."""

    def commit(self, schema: "pa.Schema", done: BatchFiles) -> bool:
        """Put the files into the table, all of them or none. False: that batch is in it."""

    def replace(self, done: Replacement) -> bool:
        """Put files in the place of others, all of them or none. False: that batch is in the
        table. Overtaken: one of those to be removed is not in the table any more, or where they
        lie (by what it is partitioned by) there are others beside them."""

    def files(self) -> list[TableFile]:
        """The files that make up the table now."""

    def active_files(self) -> list[str]:
        """Their whole paths."""


def check_not_overtaken(
    path: str, version: object, there: list[TableFile], done: Replacement
) -> None:
    """A batch replaces all files of each place it writes to; whoever only puts files together
    leaves others beside them alone."""
    known = {each.name for each in there}
    removed = {each.name for each in done.removed}
    if not removed <= known:
        raise Overtaken(path, version)
    if done.batch is not None:
        written = {each.values for each in done.added} | {each.values for each in done.removed}
        if any(each.values in written and each.name not in removed for each in there):
            raise Overtaken(path, version)


def names(columns: Iterable[str]) -> str:
    """`key, value`, for messages."""
    return ", ".join(columns) or "none"
