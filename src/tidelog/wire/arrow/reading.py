"""From record batches to Arrow.

A plan names the batches that a reader may see. Pieces of it are decompressed into one scratch
buffer and decoded by the kernel, which writes Arrow's buffers; here they are only wrapped.
"""

import struct
from array import array
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa

from tidelog._native import contract
from tidelog._native.contract import FIELDS
from tidelog.wire.arrow.schema import COLUMN_TYPES, RECORD_COLUMNS, record_schema
from tidelog.wire.kernel import choice
from tidelog.wire.kernel.table import CRC_UNCHECKED, BatchTable, as_bytes
from tidelog.wire.records import (
    Buffer,
    CorruptBatch,
    DecodeLimits,
    InvalidBatch,
    InvalidRecord,
    compression,
    iter_records,
    read_header,
)
from tidelog.wire.records.body import DEFAULT_LIMITS
from tidelog.wire.records.header import MAX_INT64

PIECE_BYTES = 2 * 1024 * 1024
"""Spark takes pieces of 1 to 4 MiB best (spark.md §2)."""
_MOST_DECOMPRESSED_BYTES = 256 * 1024 * 1024
"""Arrow's offsets have 32 bits, and a piece may hold this and one more."""

_WANTED = {
    "key": contract.WANT_KEY,
    "value": contract.WANT_VALUE,
    "offset": contract.WANT_OFFSET,
    "timestamp": contract.WANT_TIMESTAMP,
    "timestampType": contract.WANT_TIMESTAMP_TYPE,
    "headers": contract.WANT_HEADERS,
}
_PLAN_WIDTH = len(contract.PLAN_FIELDS)
_FROM_SCRATCH = 1
_TABLE_TYPES = {
    "leader_epoch": pa.int32(),
    "attributes": pa.int32(),
    "record_count": pa.int32(),
    "producer_epoch": pa.int32(),
    "base_sequence": pa.int32(),
    "crc_ok": pa.bool_(),
}


class AbortedRange(NamedTuple):
    """Transactional batches of a producer between two offsets, both included, do not count."""

    producer_id: int
    first_offset: int
    last_offset: int


class Selection(NamedTuple):
    """Which records of a partition to read, and which of their columns, in which order.

    Control batches are never records. `aborted` is what a broker or the transaction index says;
    empty for a reader of uncommitted data.
    """

    topic: str
    partition: int
    columns: tuple[str, ...] = RECORD_COLUMNS
    from_offset: int = 0
    to_offset: int = MAX_INT64
    """Excluded."""
    aborted: tuple[AbortedRange, ...] = ()


def decode_columns(
    region: Buffer,
    table: BatchTable,
    selection: Selection,
    *,
    limits: DecodeLimits = DEFAULT_LIMITS,
    piece_bytes: int = PIECE_BYTES,
) -> Iterator[pa.RecordBatch]:
    """The selected records of a scanned region, in pieces of about `piece_bytes`.

    A batch that cannot be read raises the InvalidBatch that `wire.records` raises, after the
    records before it; so does one whose checksum the scan found wrong. `limits` bound each batch
    as there.
    """
    assert piece_bytes > 0, piece_bytes
    assert limits.max_decompressed_bytes <= _MOST_DECOMPRESSED_BYTES, limits
    return _Reading(region, table, selection, limits, piece_bytes).pieces()


class _Reading:
    """One pass over one region."""

    __slots__ = (
        "budget",
        "crc_ok",
        "limits",
        "plan",
        "region",
        "schema",
        "scratch",
        "selection",
        "table",
    )

    def __init__(
        self,
        region: Buffer,
        table: BatchTable,
        selection: Selection,
        limits: DecodeLimits,
        budget: int,
    ) -> None:
        self.region = as_bytes(region)
        self.table = table
        self.selection = selection
        self.limits = limits
        self.budget = min(budget, _MOST_DECOMPRESSED_BYTES)
        self.scratch = bytearray()
        """Of all pieces in turn: pages that were written to before cost least."""
        self.schema = record_schema(selection.columns)
        self.crc_ok = table.column("crc_ok")
        aborted = _sorted_ranges(selection.aborted)
        bounds = (selection.from_offset, selection.to_offset)
        self.plan = choice.kernel.decoding.pick(table.cells, *bounds, aborted)

    def pieces(self) -> Iterator[pa.RecordBatch]:
        count = len(self.plan) // (8 * _PLAN_WIDTH)
        start = 0
        while start < count:
            scratch, end, trouble = self._unpack(start, count)
            piece, stopped = self._decode(scratch, start, end)
            yield from _sliced(piece, self.budget)
            if stopped < end:
                raise self._what_is_wrong(stopped)
            if trouble is not None:
                raise trouble
            start = end

    def _unpack(self, start: int, count: int) -> tuple[bytearray, int, InvalidBatch | None]:
        """Plain records of the next piece: what had to be decompressed, where the piece ends,
        and what is wrong with the batch there."""
        scratch, used_bytes = self.scratch, 0
        left = self.budget
        index = start
        with memoryview(self.plan) as raw, raw.cast("q") as plan:
            while True:
                index, used = choice.kernel.decoding.advance(self.plan, index, left)
                left -= used
                if left <= 0 or index == count:
                    return scratch, index, None
                at = index * _PLAN_WIDTH
                row, codec, begin, size_bytes = plan[at : at + _PLAN_WIDTH]
                if self.crc_ok[row] == 0:
                    return scratch, index, self._what_is_wrong(index)
                packed = memoryview(self.region)[begin : begin + size_bytes]
                most = self.limits.max_decompressed_bytes
                try:
                    plain = compression.decompress(-codec, packed, most)
                except InvalidBatch as error:
                    return scratch, index, error
                plan[at + 1], plan[at + 2], plan[at + 3] = _FROM_SCRATCH, used_bytes, len(plain)
                scratch[used_bytes : used_bytes + len(plain)] = plain
                used_bytes += len(plain)
                left -= len(plain)
                index += 1

    def _decode(self, scratch: Buffer, start: int, end: int) -> tuple[pa.RecordBatch, int]:
        wanted = sum(_WANTED.get(name, 0) for name in set(self.selection.columns))
        rows, stopped, header_count, buffers = choice.kernel.decoding.decode(
            self.region,
            scratch,
            self.table.cells,
            self.plan,
            span=(start, end),
            bounds=(self.selection.from_offset, self.selection.to_offset),
            wanted=wanted,
            limits=self.limits,
        )
        made = _Columns(rows, header_count, buffers)
        arrays = [
            made.array(name) if name in _WANTED else self._constant(name, rows)
            for name in self.selection.columns
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema), stopped

    def _constant(self, name: str, rows: int) -> pa.Array:
        value = self.selection.topic if name == "topic" else self.selection.partition
        return _repeated(name, value, 1 << rows.bit_length()).slice(0, rows)

    def _what_is_wrong(self, index: int) -> InvalidBatch:
        """The error of `wire.records` for a batch that the kernel would not read."""
        row = memoryview(self.plan).cast("q")[index * _PLAN_WIDTH]
        position = self.table.column("position")[row]
        try:
            header = read_header(self.region, position)
            if self.crc_ok[row] == 0:
                text = f"the checksum of the batch at offset {header.base_offset} is wrong"
                return CorruptBatch(text)
            for _ in iter_records(self.region, position, header, self.limits):
                pass
        except InvalidBatch as error:
            return error
        return InvalidRecord(f"the batch at position {position} is not the one that was scanned")


class _Columns(NamedTuple):
    """Buffers from the kernel, by the name of their column."""

    rows: int
    header_count: int
    buffers: dict[str, bytearray]

    def array(self, name: str) -> pa.Array:
        kind = COLUMN_TYPES[name]
        if name == "headers":
            return self._headers()
        if name in ("key", "value"):
            return self._bytes(name, kind, self.rows)
        return pa.Array.from_buffers(kind, self.rows, [None, self._buffer(name)])

    def _headers(self) -> pa.Array:
        kind = COLUMN_TYPES["headers"]
        keys = self._bytes("headers.key", pa.string(), self.header_count)
        values = self._bytes("headers.value", pa.binary(), self.header_count)
        pairs = pa.Array.from_buffers(
            kind.value_type, self.header_count, [None], children=[keys, values]
        )
        buffers = [self._buffer("headers.valid"), self._buffer("headers.offsets")]
        return pa.Array.from_buffers(kind, self.rows, buffers, children=[pairs])

    def _bytes(self, name: str, kind: pa.DataType, rows: int) -> pa.Array:
        parts = [self._buffer(f"{name}.{part}") for part in ("valid", "offsets", "data")]
        return pa.Array.from_buffers(kind, rows, parts)

    def _buffer(self, name: str) -> pa.Buffer | None:
        made = self.buffers.get(name)
        return None if made is None else pa.py_buffer(made)


@lru_cache(maxsize=16)
def _repeated(name: str, value: str | int, rows: int) -> pa.Array:
    """A column with one value, kept: every piece takes its beginning. Not by way of a scalar of
    Arrow's, which imports pandas."""
    if isinstance(value, int):
        buffers = [None, pa.py_buffer(struct.pack("=i", value) * rows)]
    else:
        text = value.encode()
        assert text, "a topic without a name"
        ends = array("i", range(0, (rows + 1) * len(text), len(text)))
        buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(text * rows)]
    return pa.Array.from_buffers(COLUMN_TYPES[name], rows, buffers)


def _sliced(piece: pa.RecordBatch, budget: int) -> Iterator[pa.RecordBatch]:
    """A piece, cut by rows where one batch alone was much more than a piece should be."""
    if piece.num_rows == 0:
        return
    parts = max(1, piece.nbytes // (2 * budget))
    step = -(-piece.num_rows // parts)
    for start in range(0, piece.num_rows, step):
        yield piece.slice(start, step) if parts > 1 else piece


def _sorted_ranges(aborted: Iterable[AbortedRange]) -> bytes:
    """As the kernel searches them: by producer and offset, those that touch joined."""
    joined: list[AbortedRange] = []
    for some in sorted(aborted):
        last = joined[-1] if joined else None
        if last and last.producer_id == some.producer_id and some.first_offset <= last.last_offset:
            highest = max(last.last_offset, some.last_offset)
            joined[-1] = last._replace(last_offset=highest)
        else:
            joined.append(some)
    return b"".join(struct.pack("=3q", *some) for some in joined)


def table_columns(table: BatchTable) -> pa.RecordBatch:
    """A batch table as Arrow, for audits; `crc_ok` is null where nobody looked."""
    arrays = {}
    for name in FIELDS:
        buffer = pa.py_buffer(table.column_bytes(name))
        column = pa.Array.from_buffers(pa.int64(), table.rows, [None, buffer])
        arrays[name] = column.cast(_TABLE_TYPES.get(name, pa.int64()))
    if table.rows and table.column("crc_ok")[0] == CRC_UNCHECKED:
        arrays["crc_ok"] = pa.nulls(table.rows, pa.bool_())
    return pa.RecordBatch.from_pydict(arrays)
