"""Iceberg tables through pyiceberg, with a catalog in one SQLite file beside the data.

Files and the mark of the batch (a property of the table, so that expiring snapshots does not
forget it) are committed in one transaction. The snapshot carries the same words for people.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from tidelog.spark.failure import TidelogError
from tidelog.spark.tables.layouts import iceberg_data
from tidelog.spark.tables.schemas import check_columns, check_partitioning
from tidelog.spark.tables.words import BatchFiles, TableSpec

try:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.io.pyarrow import schema_to_pyarrow
except ImportError:
    raise TidelogError(
        "Iceberg tables need the package pyiceberg", "pip install 'tidelog[iceberg]'"
    ) from None

if TYPE_CHECKING:
    from pyiceberg.table import Table

CATALOG_FILE = "catalog.db"
NAMESPACE = "tidelog"
NAME = "records"
MARK = "tidelog.batch."
TIDY = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
"""Every commit writes the metadata anew: a pipeline that runs for weeks must not keep it all."""


class IcebergForm:
    __slots__ = ("_path", "_spec")

    def __init__(self, spec: TableSpec) -> None:
        self._spec = spec
        self._path = Path(spec.path).absolute()

    def exists(self) -> bool:
        if not (self._path / CATALOG_FILE).exists():
            return False
        with self._catalog() as catalog:
            return bool(catalog.table_exists((NAMESPACE, NAME)))

    def schema(self) -> pa.Schema | None:
        if not self.exists():
            return None
        with self._catalog() as catalog:
            known = catalog.load_table((NAMESPACE, NAME)).schema()
            return schema_to_pyarrow(known, include_field_ids=False)

    def grow(self, schema: pa.Schema) -> None:
        with self._catalog() as catalog:
            table = catalog.load_table((NAMESPACE, NAME))
            with table.update_schema() as change:
                change.union_by_name(schema)

    def prepare(self, schema: pa.Schema) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        with self._catalog() as catalog:
            if not catalog.table_exists((NAMESPACE, NAME)):
                catalog.create_namespace_if_not_exists(NAMESPACE)
                location = (self._path / NAME).as_uri()
                made = catalog.create_table(
                    (NAMESPACE, NAME), schema, location=location, properties=TIDY
                )
                self._partition(made)
            table = catalog.load_table((NAMESPACE, NAME))
            there = schema_to_pyarrow(table.schema(), include_field_ids=False)
            check_columns(self._spec.path, schema, there)
            columns = tuple(each.name for each in table.spec().fields)
            check_partitioning(self._spec.path, self._spec.partition_by, columns)

    def is_empty(self) -> bool:
        return not self.active_files()

    def commit(self, schema: pa.Schema, done: BatchFiles) -> bool:
        if not self.exists():
            self.prepare(schema)
        query, number = done.batch
        directory = iceberg_data(self._spec).absolute()
        with self._catalog() as catalog:
            table = catalog.load_table((NAMESPACE, NAME))
            last = table.properties.get(MARK + query)
            if last is not None and int(last) >= number:
                return False
            said = {"tidelog.query": query, "tidelog.batch": str(number)}
            with table.transaction() as transaction:
                if done.files:
                    transaction.add_files(
                        [(directory / each.name).as_uri() for each in done.files],
                        snapshot_properties=said,
                        check_duplicate_files=False,  # their names are new by construction
                    )
                transaction.set_properties({MARK + query: str(number)})
        return True

    def active_files(self) -> list[str]:
        if not self.exists():
            return []
        with self._catalog() as catalog:
            table = catalog.load_table((NAMESPACE, NAME))
            return [each.file.file_path for each in table.scan().plan_files()]

    def _partition(self, table: "Table") -> None:
        if self._spec.partition_by:
            with table.update_spec() as change:
                for column in self._spec.partition_by:
                    change.add_identity(column)

    @contextmanager
    def _catalog(self) -> Iterator[SqlCatalog]:
        uri = f"sqlite:///{self._path / CATALOG_FILE}"
        catalog = SqlCatalog(NAMESPACE, uri=uri, warehouse=self._path.as_uri())
        try:
            yield catalog
        finally:
            catalog.engine.dispose()
