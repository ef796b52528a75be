"""Iceberg tables through pyiceberg, in a catalog: one SQLite file beside the data, or another.

Files and the mark of the batch (a property of the table, so that expiring snapshots does not
forget it) are committed in one transaction. The snapshot carries the same words for people.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from tidelog.spark.failure import TidelogError
from tidelog.spark.tables.catalogs import (
    check_catalog,
    has_catalog,
    open_catalog,
    said,
    table_name,
)
from tidelog.spark.tables.files import as_text
from tidelog.spark.tables.layouts import iceberg_data
from tidelog.spark.tables.schemas import check_columns, check_partitioning
from tidelog.spark.tables.stores import Store, located
from tidelog.spark.tables.words import (
    BatchFiles,
    BatchId,
    Overtaken,
    Replacement,
    TableFile,
    TableSpec,
    WrittenFile,
    check_not_overtaken,
)

try:
    from pyiceberg.conversions import from_bytes
    from pyiceberg.exceptions import CommitFailedException, ValidationException
    from pyiceberg.expressions.literals import literal
    from pyiceberg.io.pyarrow import parquet_file_to_data_file, schema_to_pyarrow
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestFile
    from pyiceberg.table.snapshots import Operation
    from pyiceberg.table.update.snapshot import _OverwriteFiles
    from pyiceberg.typedef import Record
    from pyiceberg.types import LongType
except ImportError:
    raise TidelogError(
        "Iceberg tables need the package pyiceberg", "pip install 'tidelog[iceberg]'"
    ) from None

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

NAME_MAPPING = "schema.name-mapping.default"
MARK = "tidelog.batch."
TIDY = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
"""Every commit writes the metadata anew: a pipeline that runs for weeks must not keep it all."""
ATTEMPTS_MAX = 20
"""Of a commit, while others commit to the same table."""


class IcebergForm:
    __slots__ = ("_name", "_spec", "_store")

    def __init__(self, spec: TableSpec) -> None:
        check_catalog(spec)
        self._spec = spec
        self._store: Store = spec.store
        self._name = table_name(spec)

    def exists(self) -> bool:
        if not has_catalog(self._spec):
            return False
        with self._catalog() as catalog:
            return bool(catalog.table_exists(self._name))

    def schema(self) -> pa.Schema | None:
        if not self.exists():
            return None
        with self._catalog() as catalog:
            known = catalog.load_table(self._name).schema()
            return schema_to_pyarrow(known, include_field_ids=False)

    def grow(self, schema: pa.Schema) -> None:
        with self._catalog() as catalog:
            table = catalog.load_table(self._name)
            with table.update_schema() as change:
                change.union_by_name(schema)

    def prepare(self, schema: pa.Schema) -> None:
        if self._store.is_local:
            self._store.path.mkdir(parents=True, exist_ok=True)
        with self._catalog() as catalog:
            if not catalog.table_exists(self._name):
                catalog.create_namespace_if_not_exists(self._name[:-1])
                made = catalog.create_table(
                    self._name, schema, location=self._location(), properties=TIDY
                )
                self._partition(made)
            table = catalog.load_table(self._name)
            self._check_location(table)
            there = schema_to_pyarrow(table.schema(), include_field_ids=False)
            check_columns(self._spec.path, schema, there)
            columns = tuple(each.name for each in table.spec().fields)
            check_partitioning(self._spec.path, self._spec.partition_by, columns)

    def is_empty(self) -> bool:
        return not self.active_files()

    def last_batch(self, query: str) -> int | None:
        with self._catalog() as catalog:
            return _last(catalog.load_table(self._name), query)

    def commit(self, schema: pa.Schema, done: BatchFiles) -> bool:
        if not self.exists():
            self.prepare(schema)
        with self._catalog() as catalog:
            for _ in range(ATTEMPTS_MAX):
                try:
                    return self._commit_once(catalog, done)
                except CommitFailedException:
                    continue  # somebody else was faster; it may have been this batch
        raise TidelogError(
            f"others have changed the table at {self._spec.path} {ATTEMPTS_MAX} times meanwhile",
            "start again, with fewer writers",
        )

    def _commit_once(self, catalog: "Catalog", done: BatchFiles) -> bool:
        table = catalog.load_table(self._name)
        if _has(table, done.batch):
            return False
        data = iceberg_data(self._spec)
        without_retries(table)
        with table.transaction() as transaction:
            if done.files:
                transaction.add_files(
                    [data.below(each.name).uri for each in done.files],
                    snapshot_properties=_words_of(done.batch),
                    check_duplicate_files=False,  # their names are new by construction
                )
            transaction.set_properties(_mark(done.batch))
        return True

    def replace(self, done: Replacement) -> bool:
        for _ in range(ATTEMPTS_MAX):
            with self._catalog() as catalog:
                table = catalog.load_table(self._name)
                if _has(table, done.batch):
                    return False
                there = _data_files(table)
                version = f"snapshot {table.metadata.current_snapshot_id}"
                check_not_overtaken(self._spec.path, version, _files(table, there), done)
                without_retries(table)
                try:
                    self._replace(table, there, done)
                except (CommitFailedException, ValidationException):
                    continue
                return True
        raise Overtaken(self._spec.path, version)

    def _replace(self, table: "Table", there: "dict[str, DataFile]", done: Replacement) -> None:
        data = iceberg_data(self._spec)
        words = {} if done.batch is None else _words_of(done.batch)
        kind = Operation.APPEND if table.current_snapshot() is None else Operation.OVERWRITE
        with table.transaction() as transaction:
            if done.batch is not None:
                transaction.set_properties(_mark(done.batch))
            transaction.set_properties(_name_mapping(table))
            with _Overwrite(kind, transaction, table.io, snapshot_properties=words) as change:
                for each in done.removed:
                    change.delete_data_file(there[each.name])
                for written in done.added:
                    change.append_data_file(
                        _data_file(table, data.below(written.name).uri, written)
                    )

    def files(self) -> list[TableFile]:
        if not self.exists():
            return []
        with self._catalog() as catalog:
            table = catalog.load_table(self._name)
            return _files(table, _data_files(table))

    def active_files(self) -> list[str]:
        return [each.path for each in self.files()]

    def _location(self) -> str:
        """In a catalog of our own the metadata lie beside the data, as they always did."""
        if self._spec.catalog is None:
            return self._store.below(self._name[-1]).uri
        return self._store.uri

    def _check_location(self, table: "Table") -> None:
        """Files elsewhere would be in the table, and whoever drops or moves it would miss them."""
        there = located(table.location())
        if self._spec.catalog is not None and there != self._spec.path:
            raise TidelogError(
                f"the table {self._spec.catalog.table} lies at {there}, not at {self._spec.path}",
                f"--to {there}, or another --table",
            )

    def _partition(self, table: "Table") -> None:
        if self._spec.partition_by:
            with table.update_spec() as change:
                for column in self._spec.partition_by:
                    change.add_identity(column)

    @contextmanager
    def _catalog(self) -> "Iterator[Catalog]":
        with open_catalog(self._spec) as catalog:
            try:
                yield catalog
            except (TidelogError, CommitFailedException):
                raise
            except Exception as error:  # of pyiceberg, pyarrow, SQLAlchemy, HTTP, boto
                if self._spec.catalog is None:
                    raise
                raise TidelogError(
                    f"the table {self._spec.catalog.table} at {self._spec.path}:"
                    f" {said(self._spec, error)}",
                    "check --catalog, --catalog-option and the login of the store",
                ) from None


class _Overwrite(_OverwriteFiles):
    """pyiceberg's own keeps a manifest of deleted files in all snapshots to come. Each batch of
    changes would leave one, and whoever plans a read or a commit opens them all. What a snapshot
    deleted is said in that snapshot; those after it need not say it again, as in Iceberg's Java."""

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        return [
            each
            for each in manifests
            if each.has_added_files()
            or each.has_existing_files()
            or each.added_snapshot_id == self.snapshot_id
        ]


def without_retries(table: "Table") -> None:
    """A commit that lost a race must not be tried again before the mark is read anew: the winner
    may have committed the same batch. Known to this object alone, and not to the table."""
    properties = {**table.metadata.properties, "commit.retry.num-retries": "0"}
    table.metadata = table.metadata.model_copy(update={"properties": properties})


def _has(table: "Table", batch: BatchId | None) -> bool:
    last = None if batch is None else _last(table, batch.query)
    return batch is not None and last is not None and last >= batch.number


def _last(table: "Table", query: str) -> int | None:
    told = table.properties.get(MARK + query)
    return None if told is None else int(told)


def _mark(batch: BatchId) -> dict[str, str]:
    return {MARK + batch.query: str(batch.number)}


def _words_of(batch: BatchId) -> dict[str, str]:
    return {"tidelog.query": batch.query, "tidelog.batch": str(batch.number)}


def _data_files(table: "Table") -> "dict[str, DataFile]":
    """By manifests: a scan leaves out files without rows, and places without rows have such."""
    snapshot = table.current_snapshot()
    manifests = [] if snapshot is None else snapshot.manifests(table.io)
    return {
        entry.data_file.file_path: entry.data_file
        for manifest in manifests
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    }


def _files(table: "Table", there: "dict[str, DataFile]") -> list[TableFile]:
    columns = [each.name for each in table.spec().fields]
    return [
        TableFile(
            path,
            path,
            each.file_size_in_bytes,
            each.record_count,
            tuple((name, as_text(each.partition[at])) for at, name in enumerate(columns)),
            _offsets(table, each),
        )
        for path, each in there.items()
    ]


def _offsets(table: "Table", file: "DataFile") -> tuple[int, int] | None:
    column = next((each for each in table.schema().fields if each.name == "offset"), None)
    if column is None or not isinstance(column.field_type, LongType):
        return None
    low = (file.lower_bounds or {}).get(column.field_id)
    high = (file.upper_bounds or {}).get(column.field_id)
    if low is None or high is None:
        return None
    return int(from_bytes(column.field_type, low)), int(from_bytes(column.field_type, high))


def _data_file(table: "Table", uri: str, written: WrittenFile) -> "DataFile":
    if written.rows:
        return parquet_file_to_data_file(table.io, table.metadata, uri)
    # Its statistics do not tell to which place a file without rows belongs.
    kinds = [table.schema().find_type(each.source_id) for each in table.spec().fields]
    values = [
        None if text is None else literal(text).to(kind).value
        for kind, (_, text) in zip(kinds, written.values, strict=True)
    ]
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=uri,
        file_format=FileFormat.PARQUET,
        partition=Record(*values),
        record_count=0,
        file_size_in_bytes=written.size_bytes,
        spec_id=table.metadata.default_spec_id,
    )


def _name_mapping(table: "Table") -> dict[str, str]:
    """Our files have no numbers of fields, so readers find columns by their names."""
    return {NAME_MAPPING: table.schema().name_mapping.model_dump_json()}
