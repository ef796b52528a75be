"""Rows that an archive lacks, added beside the pipeline that goes on writing it.

A range never reaches above what the pipeline has committed, so the query that runs writes no row
of it. Rows that are there are known by topic, partition and offset, and left out. Every commit has
a number of its own under one name, taken before the table is looked at. If somebody else has
taken that number meanwhile, nothing is committed and the table is looked at again: two backfills
at once, or one that was given up and lives on, double nothing.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.spark.broker_read import ReadPlan, read_ranges
from tidelog.spark.changes.words import BUCKET
from tidelog.spark.client_settings import ClientSettings
from tidelog.spark.dead_letters import good_rows
from tidelog.spark.failure import DataLoss, InvalidOption, TidelogError
from tidelog.spark.pipelines.archive import DERIVED
from tidelog.spark.pipelines.maintenance import plain_schema, rows_of
from tidelog.spark.ranges import OffsetRange
from tidelog.spark.registry_values import RegistryValues
from tidelog.spark.schema_types import fitted
from tidelog.spark.schema_words import GROWN
from tidelog.spark.security_options import Access
from tidelog.spark.tables.files import write_files
from tidelog.spark.tables.forms import open_table
from tidelog.spark.tables.layouts import layout_of
from tidelog.spark.tables.words import (
    PARQUET,
    BatchFiles,
    BatchId,
    Table,
    TableFile,
    TableSpec,
    names,
)
from tidelog.spark.value_format import BAD_COLUMNS, REASON, ValueFormat
from tidelog.wire.arrow.schema import COLUMN_TYPES

PLACE = ("topic", "partition", "offset")
NEAR = 4096
"""Offsets without a row that lie closer than this are read together: asking costs more."""
TRIES = 20
MICROS_OF_HOUR = 3_600_000_000

Source = Callable[[OffsetRange], Iterator[pa.RecordBatch]]
"""The records of a range, with the columns of records and those that tell of bad ones."""


class Stretch(NamedTuple):
    """Part of a partition, and which of its offsets have no row in the table."""

    span: OffsetRange
    lacks: npt.NDArray[np.bool_]

    @property
    def missing(self) -> int:
        """Offsets: some of them are of no record, because markers and compaction leave holes."""
        return int(self.lacks.sum())


class Look(NamedTuple):
    """What the table lacked, and the number of the commit that may go by it."""

    number: int
    stretches: tuple[Stretch, ...]


class Work(NamedTuple):
    """What is filled, from where, and in pieces of how many offsets."""

    spec: TableSpec
    query: str
    read: Source
    offsets_per_commit: int
    skips_bad: bool = False


class Added(NamedTuple):
    """By one commit, or by none where all records were bad or none is there."""

    rows: int = 0
    skipped: int = 0
    commits: int = 0


def query_of(pipeline: str) -> str:
    return f"backfill-{pipeline}"


# ---- what is missing ----


def checked_schema(spec: TableSpec) -> pa.Schema:
    """The columns to be filled; TidelogError if it is no table whose rows are records."""
    if spec.form == PARQUET:
        raise InvalidOption(
            "a plain directory of Parquet files has no log that tells two writers apart",
            "archive with --format delta or iceberg",
        )
    schema = open_table(spec).schema()
    if schema is None:
        raise TidelogError(
            f"there is no {spec.form} table at {spec.path}", "bring it back: start the pipeline"
        )
    if BUCKET in schema.names:
        raise InvalidOption(
            f"the table at {spec.path} has one row per key", "only archives have one per record"
        )
    known = {*COLUMN_TYPES, *(each for each in DERIVED if each in spec.partition_by)}
    others = [each for each in schema.names if each not in known]
    lost = [each for each in COLUMN_TYPES if each not in schema.names]
    if others or lost:
        raise TidelogError(
            f"the table at {spec.path} has other columns than archives have"
            f" (too many: {names(others)}, missing: {names(lost)})",
            "only tables that archive has made can be filled",
        )
    return plain_schema(schema)


def look(spec: TableSpec, query: str, ranges: Iterable[OffsetRange]) -> Look:
    """The number is taken first: whoever commits after that has taken it too."""
    last = open_table(spec).last_batch(query)
    return Look(0 if last is None else last + 1, tuple(lacking(spec, ranges)))


def lacking(spec: TableSpec, ranges: Iterable[OffsetRange]) -> list[Stretch]:
    """One look at the table: three columns of those files that may have rows of these ranges.
    Takes a byte of memory for each offset."""
    stretches = [Stretch(each, np.ones(each.size, np.bool_)) for each in ranges if each.size > 0]
    table = open_table(spec)
    schema = table.schema()
    assert schema is not None, "it was there when it was checked"
    columns = pa.schema([plain_schema(schema).field(name) for name in PLACE])
    for file in table.files():
        touched = [each for each in stretches if may_have(file, each.span)]
        for rows in rows_of(spec, file, columns) if touched else ():
            for each in touched:
                strike(each, rows)
    return stretches


def may_have(file: TableFile, span: OffsetRange) -> bool:
    """Whether rows of a range may be in a file, by what the log of the table says of it."""
    place = dict(file.values)
    if place.get("topic", span.topic) != span.topic:
        return False
    if place.get("partition", str(span.partition)) != str(span.partition):
        return False
    low, high = file.offsets or (span.start, span.end)
    return low < span.end and high >= span.start


def strike(stretch: Stretch, rows: pa.RecordBatch) -> None:
    """These rows are there."""
    span = stretch.span
    here = pc.and_(
        pc.equal(rows["topic"], span.topic),
        pc.equal(rows["partition"], pa.scalar(span.partition, rows["partition"].type)),
    )
    found = rows["offset"].filter(here).to_numpy(zero_copy_only=False)
    found = found[(found >= span.start) & (found < span.end)]
    stretch.lacks[found - span.start] = False


def windows(stretch: Stretch, most: int) -> Iterator[Stretch]:
    """The parts that have offsets without a row, none larger than `most`."""
    holes = np.flatnonzero(stretch.lacks)
    for near in np.split(holes, np.flatnonzero(np.diff(holes) > NEAR) + 1) if len(holes) else ():
        first, end = int(near[0]), int(near[-1]) + 1
        for begin in range(first, end, most):
            until = min(begin + most, end)
            start = stretch.span.start
            span = stretch.span._replace(start=start + begin, end=start + until)
            yield Stretch(span, stretch.lacks[begin:until])


def pieces(stretches: Iterable[Stretch], most: int) -> Iterator[tuple[Stretch, ...]]:
    """What is committed together."""
    some: list[Stretch] = []
    size = 0
    for stretch in stretches:
        for each in windows(stretch, most):
            if some and size + each.span.size > most:
                yield tuple(some)
                some, size = [], 0
            some.append(each)
            size += each.span.size
    if some:
        yield tuple(some)


# ---- what is added ----


def records_of(access: Access, schema: pa.Schema, registry: tuple[str, str] | None) -> Source:
    """From the brokers, decoded as the tasks of the archive do it. `registry` is its address and
    the format of values, if they have schemas in one."""
    value = schema.field("value").type
    values = None
    columns = tuple(each for each in schema.names if each in COLUMN_TYPES)
    if value != pa.binary():
        values = ValueFormat(
            value, keeps_bad=True, registry=None if registry is None else RegistryValues(*registry)
        )
        columns = (*columns, *BAD_COLUMNS)
    client = ClientSettings(client_id="tidelog-backfill", security=access.security)
    return lambda span: _read(span, ReadPlan(access.bootstrap, client, columns, values=values))


def offsets_of(access: Access) -> Source:
    """Only which records there are."""
    client = ClientSettings(client_id="tidelog-backfill", security=access.security)
    return lambda span: _read(span, ReadPlan(access.bootstrap, client, ("offset",)))


def _read(span: OffsetRange, plan: ReadPlan) -> Iterator[pa.RecordBatch]:
    try:
        yield from read_ranges([span], plan)
    except DataLoss as error:
        raise TidelogError(
            error.what, "retention was faster: start again with --from start"
        ) from None
    except TidelogError as error:
        if GROWN not in error.what:
            raise
        raise TidelogError(
            error.what, "start the pipeline anew, which adds the columns; then start this again"
        ) from None


def wanted(read: Source, chunk: Iterable[Stretch]) -> Iterator[pa.RecordBatch]:
    """The records that have no row."""
    for span, lacks in chunk:
        for rows in read(span):
            offsets = rows["offset"].to_numpy(zero_copy_only=False)
            yield rows.filter(pa.array(lacks[offsets - span.start]))


def count(read: Source, stretch: Stretch, most: int) -> int:
    return sum(rows.num_rows for rows in wanted(read, windows(stretch, most)))


def shaped(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """With the columns of the table."""
    arrays = [
        _derived(each.name, rows["timestamp"]).cast(each.type)
        if each.name in DERIVED
        else fitted(rows[each.name], each.type)
        for each in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _derived(name: str, timestamps: pa.Array) -> pa.Array:
    """The same as the archive's, which asks Spark: whole hours and days in UTC."""
    absent = timestamps.is_null().to_numpy(zero_copy_only=False)
    micros = timestamps.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    hours = micros // MICROS_OF_HOUR
    if name == "hour":
        return pa.array(hours % 24, pa.int64(), mask=absent)
    return pa.array((hours // 24).astype(np.int32), pa.int32(), mask=absent).cast(pa.date32())


def fill(work: Work, seen: Look) -> Iterator[Added]:
    """One for each piece. Whatever ends it in the middle, the next run goes on."""
    schema = checked_schema(work.spec)
    table = open_table(work.spec)
    number, waiting = seen.number, deque(pieces(seen.stretches, work.offsets_per_commit))
    tries = TRIES
    while waiting:
        done = add(work, table, schema, waiting[0], number)
        if done is not None:
            number += done.commits
            tries = TRIES
            waiting.popleft()
            yield done
            continue
        tries -= 1
        if not tries:
            raise TidelogError(
                f"others fill the table at {work.spec.path} too, {TRIES} times faster than this",
                "start again when they are done: nothing is lost",
            )
        # All that is left: with a new number, nothing may go by what was seen before it.
        left = [each.span for piece in waiting for each in piece]
        number, stretches = look(work.spec, work.query, left)
        waiting = deque(pieces(stretches, work.offsets_per_commit))


def add(
    work: Work, table: Table, schema: pa.Schema, chunk: Iterable[Stretch], number: int
) -> Added | None:
    """One commit. None: somebody else has taken this number, so nothing was added."""
    skipped = 0

    def on_bad(bad: pa.RecordBatch) -> None:
        nonlocal skipped
        if not work.skips_bad:
            raise bad_record(bad.slice(0, 1).to_pylist()[0])
        skipped += bad.num_rows

    rows = wanted(work.read, chunk)
    if schema.field("value").type != pa.binary():
        rows = good_rows(rows, on_bad)
    batch = BatchId(work.query, number)
    shapes = (shaped(each, schema) for each in rows if each.num_rows)
    name = f"backfill-{number:05d}"
    files = write_files(layout_of(work.spec, batch), schema, name, shapes)
    if not files:
        return Added(skipped=skipped)
    if not table.commit(schema, BatchFiles(batch, files)):
        return None
    return Added(sum(each.rows for each in files), skipped, 1)


def bad_record(row: Mapping[str, Any]) -> TidelogError:
    where = f"offset {row['offset']} of {row['topic']}-{row['partition']}"
    return TidelogError(
        f"at {where}: {row[REASON]}",
        "--on-bad-record skip leaves such records out, as an archive with dead letters does",
    )
