"""Parquet files as a task writes them: one after the other for each set of partition values."""

import json
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.spark.tables.new_file import NewFile
from tidelog.spark.tables.stores import Store, located, told
from tidelog.spark.tables.words import TableFile, TableSpec, WrittenFile

FILE_BYTES = 256 * 1024 * 1024
"""Uncompressed; a file is ended when it has as much."""
OPEN_FILES_MAX = 64
"""Records of many days in one task: the oldest file is ended, its day gets another later."""
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"

Values = tuple[tuple[str, Any], ...]


class Layout(NamedTuple):
    """What a form of tables wants of its files."""

    directory: Store
    partition_by: tuple[str, ...] = ()
    keeps_columns: bool = False
    """Whether files hold the columns too that they are partitioned by."""
    by_directories: bool = True
    """`date=2026-11-16/…`, where readers find the values of those columns."""


class PartitionedFiles:
    """The files of one task. Call `close` whatever happens; `written` then tells of them."""

    __slots__ = ("_layout", "_name", "_open", "_schema", "written")

    def __init__(self, layout: Layout, schema: pa.Schema, name: str) -> None:
        self._layout = layout
        self._schema = schema
        self._name = name
        self._open: dict[Values, _OpenFile] = {}
        self.written: list[WrittenFile] = []

    def write(self, batch: pa.RecordBatch) -> None:
        table = pa.Table.from_batches([batch]).cast(self._schema)
        for values, rows in _split(table, self._layout.partition_by):
            with told(self._layout.directory, "cannot write to"):
                file = self._open.pop(values, None) or self._begin(values)
                self._open[values] = file
                file.write(rows)
                if file.size_bytes >= FILE_BYTES:
                    self._end(values)

    def write_nothing(self, values: Values) -> None:
        """A file without rows, for a place that has to be in the table."""
        with told(self._layout.directory, "cannot write to"):
            self._open[values] = self._begin(values)

    def close(self) -> None:
        with told(self._layout.directory, "cannot write to"):
            for values in list(self._open):
                self._end(values)

    def abandon(self) -> None:
        """After an error: nothing is finished any more."""
        for file in self._open.values():
            file.abandon()
        self._open.clear()

    def _begin(self, values: Values) -> "_OpenFile":
        if len(self._open) >= OPEN_FILES_MAX:
            self._end(next(iter(self._open)))
        layout = self._layout
        schema = self._schema
        if not layout.keeps_columns:
            for column in layout.partition_by:
                schema = schema.remove(schema.get_field_index(column))
        parts = [f"{column}={_in_path(value)}" for column, value in values]
        name = "/".join([*(parts if layout.by_directories else ()), self._file_name()])
        return _OpenFile(layout.directory, name, schema)

    def _file_name(self) -> str:
        return f"{self._name}-{uuid.uuid4().hex}.parquet"

    def _end(self, values: Values) -> None:
        self.written.append(self._open.pop(values).end(values))


class _OpenFile:
    __slots__ = ("_file", "_footer", "_name", "_schema", "_writer", "size_bytes")

    def __init__(self, directory: Store, name: str, schema: pa.Schema) -> None:
        self._name = name
        self._schema = schema
        self._file = NewFile(directory, name)
        self._footer: list[pq.FileMetaData] = []
        self._writer = pq.ParquetWriter(
            self._file.stream, schema, compression="zstd", metadata_collector=self._footer
        )
        self.size_bytes = 0

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows.select(self._schema.names))
        self.size_bytes += rows.nbytes

    def end(self, values: Values) -> WrittenFile:
        """Durable when it returns: a commit must not name bytes that a crash can take."""
        self._writer.close()
        size_bytes = self._file.end()
        (metadata,) = self._footer
        texts = tuple((column, as_text(value)) for column, value in values)
        return WrittenFile(self._name, size_bytes, metadata.num_rows, texts, statistics(metadata))

    def abandon(self) -> None:
        self._file.abandon(self._writer.close)


def open_file(spec: TableSpec, file: TableFile) -> pa.NativeFile:
    """A file of a table, to be read."""
    store = Store(located(unquote(file.path)), spec.options)
    with told(store, "cannot read"):
        return open_stored(store)


def open_stored(store: Store) -> pa.NativeFile:
    filesystem, place = store.filesystem()
    return filesystem.open_input_file(place)


def write_stored(store: Store, rows: pa.Table) -> None:
    """A file that belongs to another one and is there before it; durable when it returns."""
    with told(store, "cannot write to"):
        directory, _, name = store.place.rpartition("/")
        file = NewFile(store._replace(place=directory), name)
        pq.write_table(rows, file.stream, compression="zstd")
        file.end()


def write_files(
    layout: Layout, schema: pa.Schema, name: str, batches: Iterable[pa.RecordBatch]
) -> tuple[WrittenFile, ...]:
    """Everything that one task was given, as files that nobody knows of yet."""
    files = PartitionedFiles(layout, schema, name)
    try:
        for batch in batches:
            if batch.num_rows:
                files.write(batch)
        files.close()
    except BaseException:
        files.abandon()
        raise
    return tuple(files.written)


def _split(table: pa.Table, columns: tuple[str, ...]) -> Iterator[tuple[Values, pa.Table]]:
    """Rows by what they have in these columns, in their own order."""
    if not columns:
        yield (), table
        return
    distinct = table.select(list(columns)).group_by(list(columns), use_threads=False).aggregate([])
    for found in distinct.to_pylist():
        mask = None
        for column in columns:
            same = _equals(table[column], found[column])
            mask = same if mask is None else pc.and_(mask, same)
        yield tuple((column, found[column]) for column in columns), table.filter(mask)


def _equals(column: pa.ChunkedArray, value: Any) -> pa.ChunkedArray:
    if value is None:
        return pc.is_null(column)
    return pc.fill_null(pc.equal(column, pa.scalar(value, column.type)), False)


def as_text(value: Any) -> str | None:
    return None if value is None else str(value)


def _in_path(value: Any) -> str:
    return NO_VALUE if value is None else quote(str(value), safe="")


def statistics(metadata: pq.FileMetaData) -> str:
    """Smallest and largest of numbers and times: enough to leave files out by offset or date."""
    smallest: dict[str, Any] = {}
    largest: dict[str, Any] = {}
    for index in range(metadata.num_columns):
        column = metadata.schema.column(index)
        groups = [metadata.row_group(each).column(index) for each in range(metadata.num_row_groups)]
        known = [each.statistics for each in groups if each.statistics is not None]
        if "." in column.path or len(known) < len(groups):
            continue
        found = [each for each in known if each.has_min_max]
        if found and len(found) == len(groups):
            low = _bound(min(each.min for each in found), up=False)
            high = _bound(max(each.max for each in found), up=True)
            if low is not None and high is not None:
                smallest[column.name], largest[column.name] = low, high
    return json.dumps(
        {"numRecords": metadata.num_rows, "minValues": smallest, "maxValues": largest}
    )


def _bound(value: Any, *, up: bool) -> int | str | None:
    """Delta's log has times in whole milliseconds, so the upper bound is rounded up."""
    if isinstance(value, bool) or not isinstance(value, int | datetime):
        return None
    if isinstance(value, int):
        return value
    moment = value.astimezone(UTC)
    if up and moment.microsecond % 1000:
        moment += timedelta(milliseconds=1)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
