"""The encoding half of the kernel in Python, on `wire.records`. `_native.contract` has the
promises.
"""

import struct
from array import array
from typing import NamedTuple

from tidelog._native import contract
from tidelog._native.contract import (
    Buffer,
    BytesColumn,
    HeadersColumn,
    Int32Column,
    WritableBuffer,
)
from tidelog.wire import records
from tidelog.wire.murmur2 import murmur2
from tidelog.wire.records import HEADER_SIZE, Record, read_header
from tidelog.wire.records.header import (
    ATTRIBUTES_POSITION,
    MAX_INT32,
    MAX_INT64,
    MIN_INT64,
    TRANSACTIONAL_BIT,
    seal,
)

_SPENT_ON_A_RECORD_BYTES = 8
_RECORD_OVERHEAD_BYTES = 5 + 1 + 10 + 5 + 5 + 5 + 5
_KEY_ERRORS = "surrogateescape"
_ATTRIBUTES = struct.Struct(">h")
_PRODUCER = struct.Struct(">qhi")
_PRODUCER_POSITION = 43


def _is_set(bits: Buffer | None, index: int) -> bool:
    return bits is None or bits[index >> 3] >> (index & 7) & 1 == 1


def _value(column: BytesColumn | None, row: int) -> bytes | None:
    """One value; None for null, also where there is no such column."""
    if column is None or not _is_set(column.valid, column.first + row):
        return None
    start, end = struct.unpack_from("=ii", column.offsets, 4 * (column.first + row))
    return bytes(memoryview(column.data or b"")[start:end])


def assign(
    rows: int,
    *,
    keys: BytesColumn | None,
    values: BytesColumn | None,
    explicit: Int32Column | None,
    partitions: int,
    sticky: tuple[int, int],
    batch_bytes: int,
) -> tuple[bytearray, tuple[int, int], int]:
    assigned = array("i", bytes(4 * rows))
    current, spent = sticky
    for row in range(rows):
        if explicit is not None and _is_set(explicit.valid, explicit.first + row):
            (assigned[row],) = struct.unpack_from(
                "=i", explicit.numbers, 4 * (explicit.first + row)
            )
            if not 0 <= assigned[row] < partitions:
                return bytearray(assigned.tobytes()), (current, spent), row
            continue
        key = _value(keys, row)
        if key is not None:
            assigned[row] = (murmur2(key) & 0x7FFFFFFF) % partitions
            continue
        if spent >= batch_bytes:
            current, spent = (current + 1) % partitions, 0
        spent += len(_value(values, row) or b"") + _SPENT_ON_A_RECORD_BYTES
        assigned[row] = current
    return bytearray(assigned.tobytes()), (current, spent), -1


class _Row(NamedTuple):
    """A record before it has a place in a batch. `rest_bytes` is all but its deltas."""

    record: Record
    rest_bytes: int

    @property
    def items(self) -> int:
        return 1 + len(self.record.headers)


class _KeylessHeaderError(Exception):
    """An Arrow row that no record can be made of."""


def encode(
    row_count: int,
    *,
    keys: BytesColumn | None,
    values: BytesColumn | None,
    headers: HeadersColumn | None,
    timestamps: Buffer | None,
    assigned: Buffer,
    partitions: int,
    timestamp_ms: int,
    attributes: int,
    max_batch_bytes: int,
    max_items: int,
) -> tuple[bytearray | None, bytearray | None, int, int]:
    by_partition: dict[int, list[_Row]] = {}
    targets = memoryview(assigned).cast("B").cast("i")
    times = None if timestamps is None else memoryview(timestamps).cast("B").cast("q")
    for index in sorted(range(row_count), key=lambda some: targets[some]):
        time_ms = timestamp_ms if times is None else times[index]
        key, value = _value(keys, index), _value(values, index)
        try:
            row = _row(Record(0, time_ms, key, value, _headers(headers, index)))
        except _KeylessHeaderError:
            return None, None, contract.HEADER_WITHOUT_KEY, index
        if row.rest_bytes > MAX_INT32 - HEADER_SIZE - _RECORD_OVERHEAD_BYTES:
            return None, None, contract.RECORD_TOO_LARGE, index
        by_partition.setdefault(targets[index], []).append(row)
    out = bytearray()
    entries = array("q")
    for partition, rows in by_partition.items():
        for run in _runs(rows, max_batch_bytes, max_items):
            batch = records.encode(run)
            _ATTRIBUTES.pack_into(batch, ATTRIBUTES_POSITION, attributes)
            seal(batch, 0, read_header(batch))
            entries.extend((partition, len(out), len(out) + len(batch), len(run)))
            out += batch
    return out, bytearray(entries.tobytes()), contract.FINE, -1


def _headers(column: HeadersColumn | None, row: int) -> tuple[tuple[str, bytes | None], ...]:
    if column is None or not _is_set(column.valid, column.first + row):
        return ()
    start, end = struct.unpack_from("=ii", column.offsets, 4 * (column.first + row))
    headers = []
    for item in range(start, end):
        key = _value(column.key, item)
        if key is None:
            raise _KeylessHeaderError
        headers.append((key.decode("utf-8", _KEY_ERRORS), _value(column.value, item)))
    return tuple(headers)


def _row(record: Record) -> _Row:
    size_bytes = 1 + _field_bytes(record.key) + _field_bytes(record.value)
    size_bytes += _varint_bytes(len(record.headers))
    for key, value in record.headers:
        size_bytes += _field_bytes(key.encode("utf-8", _KEY_ERRORS)) + _field_bytes(value)
    return _Row(record, size_bytes)


def _runs(rows: list[_Row], max_batch_bytes: int, max_items: int) -> list[list[Record]]:
    """The records of each batch of one partition, with their offsets in it."""
    runs: list[list[Record]] = []
    run: list[Record] = []
    size_bytes = items = base_timestamp = 0
    for row in rows:
        record_bytes = _record_bytes(row, row.record.timestamp - base_timestamp, len(run))
        is_full = size_bytes + record_bytes > max_batch_bytes or items + row.items > max_items
        apart = not MIN_INT64 <= row.record.timestamp - base_timestamp <= MAX_INT64
        if not run or is_full or apart:
            run = []
            runs.append(run)
            size_bytes, items, base_timestamp = HEADER_SIZE, 0, row.record.timestamp
            record_bytes = _record_bytes(row, 0, 0)
        run.append(row.record._replace(offset=len(run)))
        size_bytes += record_bytes
        items += row.items
    return runs


def _record_bytes(row: _Row, timestamp_delta: int, offset_delta: int) -> int:
    body = row.rest_bytes + _varint_bytes(timestamp_delta) + _varint_bytes(offset_delta)
    return _varint_bytes(body) + body


def _field_bytes(data: bytes | None) -> int:
    return 1 if data is None else _varint_bytes(len(data)) + len(data)


def _varint_bytes(value: int) -> int:
    zigzag = value << 1 if value >= 0 else (-value << 1) - 1
    return max(zigzag.bit_length() + 6, 7) // 7


def restamp(
    region: WritableBuffer,
    positions: Buffer,
    *,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    transactional: bool,
) -> int:
    sequence = base_sequence
    for (position,) in struct.iter_unpack("=q", positions):
        header = read_header(region, position)
        attributes = header.attributes & ~TRANSACTIONAL_BIT
        attributes |= TRANSACTIONAL_BIT if transactional else 0
        _ATTRIBUTES.pack_into(region, position + ATTRIBUTES_POSITION, attributes)
        stamp = (producer_id, producer_epoch, sequence)
        _PRODUCER.pack_into(region, position + _PRODUCER_POSITION, *stamp)
        seal(region, position, header)
        if sequence >= 0:
            sequence = (sequence + header.last_offset_delta + 1) & MAX_INT32
    return sequence
