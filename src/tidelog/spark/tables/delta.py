"""Delta tables through delta-rs: no jar, and any reader of Delta reads them.

The log of the table keeps, for each application, the last version it wrote. The application is the
query, the version the batch; both go into the log in one entry with the files.
"""

import time
from pathlib import Path

import pyarrow as pa

from tidelog.spark.failure import TidelogError
from tidelog.spark.tables.schemas import check_columns, check_partitioning
from tidelog.spark.tables.words import BatchFiles, TableSpec

try:
    from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
    from deltalake.transaction import AddAction, RemoveAction
except ImportError:
    raise TidelogError(
        "Delta tables need the package deltalake", "pip install 'tidelog[spark]'"
    ) from None


class DeltaForm:
    __slots__ = ("_path", "_spec")

    def __init__(self, spec: TableSpec) -> None:
        self._spec = spec
        self._path = Path(spec.path)

    def exists(self) -> bool:
        return bool(DeltaTable.is_deltatable(str(self._path)))

    def schema(self) -> pa.Schema | None:
        return pa.schema(self._table().schema().to_arrow()) if self.exists() else None

    def grow(self, schema: pa.Schema) -> None:
        """An append of nothing, whose columns are merged into those of the table."""
        write_deltalake(str(self._path), schema.empty_table(), mode="append", schema_mode="merge")

    def prepare(self, schema: pa.Schema) -> None:
        if not self.exists():
            self._path.mkdir(parents=True, exist_ok=True)
            DeltaTable.create(
                str(self._path),
                Schema.from_arrow(schema),
                mode="ignore",
                partition_by=list(self._spec.partition_by) or None,
            )
        table = self._table()
        check_columns(self._spec.path, schema, pa.schema(table.schema().to_arrow()))
        there = tuple(table.metadata().partition_columns)
        check_partitioning(self._spec.path, self._spec.partition_by, there)

    def is_empty(self) -> bool:
        return not self.active_files()

    def commit(self, schema: pa.Schema, done: BatchFiles) -> bool:
        if not self.exists():
            self.prepare(schema)
        table = self._table()
        query, number = done.batch
        last = table.transaction_version(query)
        if last is not None and last >= number:
            return False
        now_ms = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [
            AddAction(
                path=each.name,
                size=each.size_bytes,
                partition_values=dict(each.values),
                modification_time=now_ms,
                data_change=True,
                stats=each.statistics,
            )
            for each in done.files
        ]
        table.create_write_transaction(
            actions,
            mode="append",
            schema=table.schema(),
            partition_by=list(self._spec.partition_by) or None,
            commit_properties=CommitProperties(
                app_transactions=[Transaction(query, number, now_ms)]
            ),
        )
        return True

    def active_files(self) -> list[str]:
        return list(self._table().file_uris()) if self.exists() else []

    def _table(self) -> DeltaTable:
        return DeltaTable(str(self._path))
