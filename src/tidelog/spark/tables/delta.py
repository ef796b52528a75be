"""Delta tables through delta-rs: no jar, and any reader of Delta reads them.

The log of the table keeps, for each application, the last version it wrote. The application is the
query, the version the batch; both go into the log in one entry with the files.
"""

import time
from typing import Any

import pyarrow as pa

from tidelog.spark.failure import TidelogError
from tidelog.spark.tables.files import as_text
from tidelog.spark.tables.schemas import check_columns, check_partitioning
from tidelog.spark.tables.stores import told
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
    from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
    from deltalake.exceptions import CommitFailedError
    from deltalake.transaction import AddAction, RemoveAction
except ImportError:
    raise TidelogError(
        "Delta tables need the package deltalake", "pip install 'tidelog[spark]'"
    ) from None

ATTEMPTS_MAX = 20
"""Of a commit, while others commit to the same table; delta-rs itself tries those again that do
not touch what it writes."""


class DeltaForm:
    __slots__ = ("_options", "_spec", "_uri")

    def __init__(self, spec: TableSpec) -> None:
        self._spec = spec
        self._uri = spec.path
        self._options = spec.store.delta_options()

    def exists(self) -> bool:
        with told(self._spec.store, "cannot look at"):
            return bool(DeltaTable.is_deltatable(self._uri, self._options))

    def schema(self) -> pa.Schema | None:
        return pa.schema(self._table().schema().to_arrow()) if self.exists() else None

    def grow(self, schema: pa.Schema) -> None:
        """An append of nothing, whose columns are merged into those of the table."""
        write_deltalake(
            self._uri,
            schema.empty_table(),
            mode="append",
            schema_mode="merge",
            storage_options=self._options,
        )

    def prepare(self, schema: pa.Schema) -> None:
        if not self.exists():
            if self._spec.store.is_local:
                self._spec.store.path.mkdir(parents=True, exist_ok=True)
            with told(self._spec.store, "cannot make a table at"):
                DeltaTable.create(
                    self._uri,
                    Schema.from_arrow(schema),
                    mode="ignore",
                    partition_by=list(self._spec.partition_by) or None,
                    storage_options=self._options,
                )
        table = self._table()
        check_columns(self._spec.path, schema, pa.schema(table.schema().to_arrow()))
        there = tuple(table.metadata().partition_columns)
        check_partitioning(self._spec.path, self._spec.partition_by, there)

    def is_empty(self) -> bool:
        return not self.active_files()

    def last_batch(self, query: str) -> int | None:
        return self._table().transaction_version(query)

    def commit(self, schema: pa.Schema, done: BatchFiles) -> bool:
        with told(self._spec.store, "cannot commit to"):
            if not self.exists():
                self.prepare(schema)
            for _ in range(ATTEMPTS_MAX):
                try:
                    return self._commit_once(done)
                except CommitFailedError as failed:
                    # Somebody else was faster; the log says whether it was this batch.
                    reason = failed
        raise TidelogError(
            f"the table at {self._spec.path} took no commit in {ATTEMPTS_MAX} attempts: {reason}",
            "start again, with fewer writers",
        )

    def _commit_once(self, done: BatchFiles) -> bool:
        table = self._table()
        if _has(table, done.batch):
            return False
        now_ms = int(time.time() * 1000)
        self._write(table, [_added(each, now_ms) for each in done.files], done.batch)
        return True

    def replace(self, done: Replacement) -> bool:
        with told(self._spec.store, "cannot commit to"):
            for _ in range(ATTEMPTS_MAX):
                table = self._table()
                if _has(table, done.batch):
                    return False
                version = f"version {table.version()}"
                check_not_overtaken(self._spec.path, version, _files(table), done)
                try:
                    # Once: what was checked is true of this version alone.
                    self._write(table, _replacing(done), done.batch, tries=0)
                except CommitFailedError:
                    continue
                return True
        raise Overtaken(self._spec.path, version)

    def files(self) -> list[TableFile]:
        return _files(self._table()) if self.exists() else []

    def _write(
        self,
        table: DeltaTable,
        actions: "list[AddAction | RemoveAction]",
        batch: BatchId | None,
        *,
        tries: int | None = None,
    ) -> None:
        said = [] if batch is None else [Transaction(*batch, int(time.time() * 1000))]
        table.create_write_transaction(
            actions,
            mode="append",
            schema=table.schema(),
            partition_by=list(self._spec.partition_by) or None,
            commit_properties=CommitProperties(max_commit_retries=tries, app_transactions=said),
        )

    def active_files(self) -> list[str]:
        return list(self._table().file_uris()) if self.exists() else []

    def _table(self) -> DeltaTable:
        with told(self._spec.store, "cannot open"):
            return DeltaTable(self._uri, storage_options=self._options)


def _added(file: WrittenFile, now_ms: int, *, data_change: bool = True) -> AddAction:
    return AddAction(
        path=file.name,
        size=file.size_bytes,
        partition_values=dict(file.values),
        modification_time=now_ms,
        data_change=data_change,
        stats=file.statistics,
    )


def _replacing(done: Replacement) -> list[AddAction | RemoveAction]:
    changes = done.batch is not None
    now_ms = int(time.time() * 1000)
    removed: list[AddAction | RemoveAction] = [
        RemoveAction(each.name, changes, now_ms, each.size_bytes, dict(each.values))
        for each in done.removed
    ]
    return removed + [_added(each, now_ms, data_change=changes) for each in done.added]


def _has(table: DeltaTable, batch: BatchId | None) -> bool:
    last = None if batch is None else table.transaction_version(batch.query)
    return batch is not None and last is not None and last >= batch.number


def _files(table: DeltaTable) -> list[TableFile]:
    uris = {each.rpartition("/")[2]: each for each in table.file_uris()}
    columns = table.metadata().partition_columns
    return [
        TableFile(
            uris[each["path"].rpartition("/")[2]],
            each["path"],
            each["size_bytes"],
            each["num_records"] or 0,
            tuple((name, as_text(each[f"partition.{name}"])) for name in columns),
            _offsets(each),
        )
        for each in pa.table(table.get_add_actions(flatten=True)).to_pylist()
    ]


def _offsets(added: dict[str, Any]) -> tuple[int, int] | None:
    low, high = added.get("min.offset"), added.get("max.offset")
    return None if low is None or high is None else (low, high)
