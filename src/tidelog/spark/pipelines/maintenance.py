"""Tables put in order: small files become larger ones, and what nobody reads any more goes.

All of it is safe beside a pipeline that runs. Rows stay what they are, so whoever commits first
wins and the other one looks at the table again; files are removed only if they are in no version
that is kept, and older than anything that a batch may still be about to commit.
"""

import time
from collections import defaultdict
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.spark.changes.words import BUCKET
from tidelog.spark.failure import InvalidOption
from tidelog.spark.schema_types import fitted
from tidelog.spark.tables.files import FILE_BYTES, PartitionedFiles, open_file
from tidelog.spark.tables.forms import open_table
from tidelog.spark.tables.layouts import layout_of
from tidelog.spark.tables.upkeep import Unused, upkeep_of
from tidelog.spark.tables.words import (
    PARQUET,
    BatchId,
    Overtaken,
    Replacement,
    TableFile,
    TableSpec,
)

SMALL_BYTES = 32 * 1024 * 1024
ROWS_TOGETHER = 64 * 1024
SAFE_AGE_MS = 7 * 24 * 3600 * 1000
TRIES = 10


class Limits(NamedTuple):
    small_bytes: int = SMALL_BYTES
    """Files below it are put together."""
    older_than_ms: int = SAFE_AGE_MS
    """What was needed since then stays: for readers of older versions, and for batches that are
    written and not committed yet."""


class Group(NamedTuple):
    """Small files of one place that become one."""

    place: tuple[tuple[str, str | None], ...]
    files: tuple[TableFile, ...]


class Plan(NamedTuple):
    groups: tuple[Group, ...]
    unused: Unused


def plan(spec: TableSpec, limits: Limits, now_ms: int) -> Plan:
    """What would be done. InvalidOption for plain Parquet: its readers would see rows twice."""
    if spec.form == PARQUET:
        raise InvalidOption(
            "a plain directory of Parquet files has no versions to replace files in",
            "--format delta or iceberg",
        )
    table = open_table(spec)
    if not table.exists():
        raise InvalidOption(f"there is no {spec.form} table at {spec.path}", "check --to")
    unused = upkeep_of(spec).unused(now_ms - limits.older_than_ms)
    return Plan(groups_of(table.files(), limits), unused)


def groups_of(files: list[TableFile], limits: Limits) -> tuple[Group, ...]:
    """Two files or more of a place, together no larger than a file is made. A table that follows
    changes is left alone: each batch writes its buckets anew, and what is remembered of deleted
    keys belongs to their files."""
    places: dict[tuple[tuple[str, str | None], ...], list[TableFile]] = defaultdict(list)
    for each in files:
        if each.size_bytes < limits.small_bytes and BUCKET not in dict(each.values):
            places[each.values].append(each)
    found = []
    for place, small in places.items():
        some: list[TableFile] = []
        for each in small:
            if sum(file.size_bytes for file in some) + each.size_bytes > FILE_BYTES // 4:
                found.append(Group(place, tuple(some)))
                some = []
            some.append(each)
        found.append(Group(place, tuple(some)))
    return tuple(each for each in found if len(each.files) > 1)


def compact(spec: TableSpec, group: Group) -> bool:
    """One commit. False: somebody else has replaced these files meanwhile, so there is nothing
    to do any more."""
    table = open_table(spec)
    schema = table.schema()
    assert schema is not None, "it was there when it was planned"
    schema = plain_schema(schema)
    number = time.time_ns() // 1_000_000
    files = PartitionedFiles(layout_of(spec, BatchId("maintain", number)), schema, "compacted")
    try:
        for each in group.files:
            for rows in rows_of(spec, each, schema):
                files.write(rows)
        files.close()
    except BaseException:
        files.abandon()
        raise
    try:
        return table.replace(Replacement(None, group.files, tuple(files.written)))
    except Overtaken:
        return False


def rows_of(spec: TableSpec, file: TableFile, schema: pa.Schema):  # type: ignore[no-untyped-def]
    """Piece by piece, with the columns that the table has now; those of its place are in the file
    or only in the log."""
    place = dict(file.values)
    with open_file(spec, file) as source, pq.ParquetFile(source) as parquet:
        there = [name for name in schema.names if name in parquet.schema_arrow.names]
        for rows in parquet.iter_batches(ROWS_TOGETHER, columns=there):
            arrays = [
                fitted(rows[each.name], each.type)
                if each.name in there
                else pa.array([place.get(each.name)] * rows.num_rows, pa.string()).cast(each.type)
                for each in schema
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Without views and large offsets, which Parquet files of ours do not have."""
    from tidelog.spark.schema_types import plain  # noqa: PLC0415 - next to its kin

    return pa.schema([pa.field(each.name, plain(each.type)) for each in schema])


def clear(spec: TableSpec, limits: Limits, now_ms: int) -> Unused:
    """Remove what nobody reads any more; what was removed."""
    return upkeep_of(spec).clear(now_ms - limits.older_than_ms)
