"""What changes mean for the files of one bucket of a table: they are written anew, or left alone.

A bucket has all rows whose identities hash to its number. Its files are read twice: where the rows
stand whose keys have changed, and then everything that stays. Both times piece by piece: what is
held is the changes and what is remembered of deleted keys, never the rows of the table.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.spark.changes import memory, words
from tidelog.spark.changes.identities import identities_of, key_columns
from tidelog.spark.changes.latest import (
    DELETED,
    LIVE,
    REMOVED,
    UNCHANGED,
    WRITTEN,
    Decision,
    Flags,
    Ints,
    Last,
    State,
    decide,
    last_of,
    nowhere,
    places_of,
)
from tidelog.spark.changes.words import BUCKET, IDENTITY, KIND, TRUNCATE, ChangeRules
from tidelog.spark.schema_types import fitted
from tidelog.spark.tables.files import PartitionedFiles, open_file
from tidelog.spark.tables.layouts import layout_of
from tidelog.spark.tables.words import BatchId, TableFile, TableSpec, WrittenFile

ROWS_TOGETHER = 64 * 1024


class Bucket(NamedTuple):
    number: int
    files: tuple[TableFile, ...]


class Attempt(NamedTuple):
    """For which batch files are written, and when it is."""

    batch: BatchId
    task: int
    now_ms: int
    forget_before_ms: int


class Rewritten(NamedTuple):
    """The files of a bucket that go and that come."""

    removed: tuple[TableFile, ...]
    added: tuple[WrittenFile, ...]


class Following:
    """How a table follows changes. Made in each task."""

    __slots__ = ("_rules", "_schema", "_spec")

    def __init__(self, spec: TableSpec, rules: ChangeRules, schema: pa.Schema) -> None:
        """The schema is that of the table."""
        self._spec = spec
        self._rules = rules
        self._schema = schema

    def follow(self, bucket: Bucket, changes: pa.Table, attempt: Attempt) -> Rewritten | None:
        """Write what the bucket is after these changes, into files that nobody knows of yet. None:
        they change nothing."""
        whole = pc.equal(changes[KIND], TRUNCATE)
        truncations, changes = changes.filter(whole), changes.filter(pc.invert(whole))
        known = memory.remembered(self._spec, bucket.files)
        floors = memory.floors_of(known, truncations)
        last = last_of(changes)
        state = self._state(bucket, last.identity, known)
        decision = decide(last, state, memory.floor_for(last.identity, floors))
        changed = decision.outcome != UNCHANGED
        if not (changed.any() or truncations.num_rows or (decision.passed != state.passed).any()):
            return None
        gone = last.identity.filter(pa.array(changed))
        put = changes.take(pa.array(last.row[decision.outcome == WRITTEN]))
        name = f"part-{attempt.batch.number:05d}-{bucket.number:05d}"
        files = PartitionedFiles(layout_of(self._spec, attempt.batch), self._schema, name)
        try:
            for rows in self._kept(bucket, gone, floors if truncations.num_rows else {}):
                files.write(rows)
            for rows in put.select(self._schema.names).to_batches():
                files.write(rows)
            files.close()
            if not files.written:
                files.write_nothing(((BUCKET, bucket.number),))
                files.close()
        except BaseException:
            files.abandon()
            raise
        table = _memory_after(known, floors, last, decision, attempt)
        memory.remember(self._spec, files.written[0].name, table)
        return Rewritten(bucket.files, tuple(files.written))

    def _state(self, bucket: Bucket, identity: pa.BinaryArray, known: pa.Table) -> State:
        count = len(identity)
        state = State(np.zeros(count, np.int64), nowhere(count), np.zeros(count, np.bool_))
        for kind, found in ((DELETED, memory.WAS_DELETED), (None, memory.PASSED)):
            rows = memory.of_kind(known, found)
            at, mine = _matching(rows[IDENTITY].combine_chunks(), identity)
            if kind is None:
                state.passed[mine] = True
            else:
                state.kind[mine] = kind
                state.place.put(mine, places_of(rows).taken(at))
        wanted = (*key_columns(self._rules), *words.WHERE)
        for rows in self._rows(bucket, wanted):
            at, mine = _matching(identities_of(rows, self._rules), identity)
            state.kind[mine] = LIVE
            state.place.put(mine, places_of(rows).taken(at))
        return state

    def _kept(
        self, bucket: Bucket, gone: pa.Array, floors: memory.Floors
    ) -> Iterator[pa.RecordBatch]:
        """Rows that stay as they are."""
        for rows in self._rows(bucket, tuple(self._schema.names)):
            identity = identities_of(rows, self._rules)
            keep = ~_is_in(identity, gone)
            if floors:
                keep &= ~memory.floor_for(identity, floors).after(places_of(rows))
            if keep.any():
                yield rows.filter(pa.array(keep))

    def _rows(self, bucket: Bucket, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """These columns of all files, as the table has them now: a file may be older than one."""
        schema = pa.schema([self._schema.field(name) for name in columns])
        for file in bucket.files:
            with open_file(self._spec, file) as source, pq.ParquetFile(source) as parquet:
                there = [name for name in columns if name in parquet.schema_arrow.names]
                for rows in parquet.iter_batches(ROWS_TOGETHER, columns=there):
                    yield _fitted(rows, schema, bucket.number)


def _fitted(rows: pa.RecordBatch, schema: pa.Schema, bucket: int) -> pa.RecordBatch:
    count = rows.num_rows
    found = {name: rows[name] for name in rows.schema.names}
    found[BUCKET] = pa.array(np.full(count, bucket, np.int32))
    arrays = [
        fitted(found[each.name], each.type) if each.name in found else pa.nulls(count, each.type)
        for each in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _matching(there: pa.Array, wanted: pa.Array) -> tuple[Ints, Ints]:
    """Which of them are wanted, and where among the wanted ones each is."""
    found = pc.index_in(there, wanted)
    at = np.flatnonzero(pc.is_valid(found).to_numpy(zero_copy_only=False))
    return at, found.take(pa.array(at)).to_numpy(zero_copy_only=False).astype(np.int64)


def _is_in(there: pa.Array, wanted: pa.Array) -> Flags:
    return np.asarray(pc.is_in(there, wanted).to_numpy(zero_copy_only=False), dtype=np.bool_)


def _memory_after(
    known: pa.Table,
    floors: memory.Floors,
    last: Last,
    decision: Decision,
    attempt: Attempt,
) -> pa.Table:
    """Of other keys what was known, if that is young enough; of these what is true now."""
    same = known.filter(pc.not_equal(known[KIND], memory.TRUNCATED))
    # Of a key that a change did nothing to, what was known of its deletion stays.
    changed = last.identity.filter(pa.array(decision.outcome != UNCHANGED))
    stays = pc.invert(pc.is_in(same[IDENTITY], changed))
    passed_anew = pc.and_(
        pc.equal(same[KIND], memory.PASSED), pc.is_in(same[IDENTITY], last.identity)
    )
    young = pc.greater_equal(same[memory.AT_MS], attempt.forget_before_ms)
    same = same.filter(pc.and_(pc.and_(stays, pc.invert(passed_anew)), young))
    floor = memory.floor_for(last.identity, floors)
    removed = (decision.outcome == REMOVED) & decision.place.after(floor)
    made = [same]
    for mask, kind in ((removed, memory.WAS_DELETED), (decision.passed, memory.PASSED)):
        rows = np.flatnonzero(mask)
        places = decision.place.taken(rows)
        made.append(
            memory.entries(last.identity.take(pa.array(rows)), kind, places, attempt.now_ms)
        )
    if floors:
        texts, partitions, offsets = zip(*floors.values(), strict=True)
        places = nowhere(len(floors))
        places.position[:], places.partition[:], places.offset[:] = texts, partitions, offsets
        topics = pa.array(list(floors), pa.binary())
        made.append(memory.entries(topics, memory.TRUNCATED, places, attempt.now_ms))
    return pa.concat_tables(made)


def by_bucket(batches: list[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """One after the other, so that only one of them is held twice."""
    table = pa.Table.from_batches(batches)
    for number in sorted(pc.unique(table[BUCKET]).to_pylist()):
        yield number, table.filter(pc.equal(table[BUCKET], number))
