"""From Arrow to record batches.

Rows get a partition, are sorted by it and written as batches without a producer, which is
stamped in when they are sent. Columns are those of `schema`; only `value` must be there.
"""

import struct
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidelog._native import contract
from tidelog._native.contract import BytesColumn, HeadersColumn, Int32Column
from tidelog.wire.arrow.schema import HEADERS_TYPE, InvalidColumns
from tidelog.wire.kernel import choice
from tidelog.wire.records import (
    HEADER_SIZE,
    BatchTooLarge,
    WritableBuffer,
    compression,
    read_header,
)
from tidelog.wire.records.header import LENGTH_OVERHEAD, seal

_LENGTH = struct.Struct(">i")
_LENGTH_POSITION = 8
_ENTRY = struct.Struct(f"={len(contract.ENTRY_FIELDS)}q")


class BatchSettings(NamedTuple):
    """How batches are made.

    `max_batch_bytes` counts plain bytes, so compressed batches stay well below it. `max_items`
    bounds records plus headers: a broker takes at most 250,000.
    """

    codec: int = compression.NONE
    max_batch_bytes: int = 256 * 1024
    max_items: int = 100_000


DEFAULT_SETTINGS = BatchSettings()


class Partitioner:
    """Which partition each row goes to: its `partition` column, else its key's hash as in Java,
    else one that stays the same for about a batch (KIP-480, KIP-794).

    Keep it from one table to the next: it remembers where rows without a key go.
    """

    __slots__ = ("partitions", "sticky", "sticky_bytes")

    def __init__(self, partitions: int, *, sticky: int = 0) -> None:
        assert partitions > 0, partitions
        self.partitions = partitions
        self.sticky = sticky % partitions
        self.sticky_bytes = 0


class _Inputs(NamedTuple):
    """The columns of a table as the kernel takes them."""

    keys: BytesColumn | None
    values: BytesColumn | None
    explicit: Int32Column | None
    headers: HeadersColumn | None
    timestamps: memoryview | None


def encode_batches(
    rows: pa.RecordBatch,
    partitioner: Partitioner,
    *,
    timestamp_ms: int,
    settings: BatchSettings = DEFAULT_SETTINGS,
) -> dict[int, list[WritableBuffer]]:
    """Encoded batches of the rows, by partition, ready for `restamp`.

    Rows without a timestamp get `timestamp_ms`. InvalidColumns names a row or a column that no
    record can be made of. The batches of one call share their memory when not compressed.
    """
    if settings.codec not in compression.CODEC_NAMES:
        raise InvalidColumns(f"there is no compression codec {settings.codec}")
    inputs = _inputs(rows, timestamp_ms)
    assigned = _assign(rows.num_rows, inputs, partitioner, settings)
    out, entries, trouble, row = choice.kernel.encoding.encode(
        rows.num_rows,
        keys=inputs.keys,
        values=inputs.values,
        headers=inputs.headers,
        timestamps=inputs.timestamps,
        assigned=assigned,
        partitions=partitioner.partitions,
        timestamp_ms=timestamp_ms,
        attributes=settings.codec,
        max_batch_bytes=settings.max_batch_bytes,
        max_items=settings.max_items,
    )
    if trouble == contract.HEADER_WITHOUT_KEY:
        raise InvalidColumns(f"row {row} has a header without a key")
    if trouble == contract.RECORD_TOO_LARGE:
        raise BatchTooLarge(f"row {row} does not fit into one batch of 2 GiB")
    assert out is not None, trouble
    assert entries is not None, trouble
    batches: dict[int, list[WritableBuffer]] = {}
    plain = memoryview(out)
    for partition, start, end, _ in _ENTRY.iter_unpack(entries):
        batch = _packed(plain[start:end], settings.codec)
        batches.setdefault(partition, []).append(batch)
    return batches


def _packed(batch: memoryview, codec: int) -> WritableBuffer:
    """The batch with its records compressed."""
    if codec == compression.NONE:
        return batch
    packed = bytearray(batch[:HEADER_SIZE])
    packed += compression.compress(codec, batch[HEADER_SIZE:])
    _LENGTH.pack_into(packed, _LENGTH_POSITION, len(packed) - LENGTH_OVERHEAD)
    seal(packed, 0, read_header(packed))
    return packed


def _assign(
    count: int, inputs: _Inputs, partitioner: Partitioner, settings: BatchSettings
) -> bytearray:
    assigned, sticky, bad_row = choice.kernel.encoding.assign(
        count,
        keys=inputs.keys,
        values=inputs.values,
        explicit=inputs.explicit,
        partitions=partitioner.partitions,
        sticky=(partitioner.sticky, partitioner.sticky_bytes),
        batch_bytes=settings.max_batch_bytes,
    )
    if bad_row >= 0:
        (wrong,) = struct.unpack_from("=i", assigned, 4 * bad_row)
        raise InvalidColumns(
            f"row {bad_row} is for partition {wrong}, the topic has {partitioner.partitions}"
        )
    partitioner.sticky, partitioner.sticky_bytes = sticky
    return assigned


# ---- columns ----


def _inputs(rows: pa.RecordBatch, timestamp_ms: int) -> _Inputs:
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    if "value" not in columns:
        raise InvalidColumns(f"there is no column value among {', '.join(columns) or 'none'}")
    return _Inputs(
        _bytes_column("key", columns.get("key")),
        _bytes_column("value", columns["value"]),
        _partition_column(columns.get("partition")),
        _headers_column(columns.get("headers")),
        _timestamp_column(columns.get("timestamp"), timestamp_ms),
    )


def _cast(name: str, column: pa.Array, kind: pa.DataType, wanted: str) -> pa.Array:
    try:
        return column if column.type == kind else column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InvalidColumns(f"column {name} is {column.type}, it must be {wanted}") from None


def _is_text_or_bytes(kind: pa.DataType) -> bool:
    """Nothing else: Arrow would cast numbers to their decimal digits, which nobody asked for."""
    kinds = (pa.types.is_binary, pa.types.is_string, pa.types.is_large_binary)
    more = (pa.types.is_large_string, pa.types.is_binary_view, pa.types.is_string_view)
    return any(check(kind) for check in (*kinds, *more, pa.types.is_null))


def _bytes_column(name: str, column: pa.Array | None) -> BytesColumn | None:
    if column is None:
        return None
    if not _is_text_or_bytes(column.type):
        raise InvalidColumns(f"column {name} is {column.type}, it must be binary or string")
    column = _cast(name, column, pa.binary(), "binary or string")
    valid, offsets, data = column.buffers()
    if offsets is None or offsets.size == 0:  # Arrow allows it for a column without rows
        return BytesColumn(None, bytes(4), None, 0)
    return BytesColumn(_bits(column, valid), _view(offsets), _view_or_none(data), column.offset)


def _partition_column(column: pa.Array | None) -> Int32Column | None:
    if column is None:
        return None
    if not (pa.types.is_integer(column.type) or pa.types.is_null(column.type)):
        raise InvalidColumns(f"column partition is {column.type}, it must be int")
    column = _cast("partition", column, pa.int32(), "an int that fits into 32 bits")
    valid, numbers = column.buffers()
    return Int32Column(_bits(column, valid), _view_or_none(numbers) or b"", column.offset)


def _headers_column(column: pa.Array | None) -> HeadersColumn | None:
    if column is None or pa.types.is_null(column.type):
        return None
    column = _cast("headers", column, HEADERS_TYPE, "array<struct<key:string,value:binary>>")
    valid, offsets = column.buffers()[:2]
    if offsets is None or offsets.size == 0:
        return None
    pairs = column.values
    if pairs.null_count:  # a pair that is null has no key, whatever lies below it
        keys = pc.if_else(pairs.is_valid(), pairs.field(0), None)
    else:
        keys = pairs.field(0)
    key, value = _bytes_column("headers", keys), _bytes_column("headers", pairs.field(1))
    assert key is not None
    assert value is not None
    return HeadersColumn(
        _bits(column, valid), _view(offsets), column.offset, len(pairs), key, value
    )


def _timestamp_column(column: pa.Array | None, timestamp_ms: int) -> memoryview | None:
    if column is None or pa.types.is_null(column.type):
        return None
    if not pa.types.is_timestamp(column.type):
        raise InvalidColumns(f"column timestamp is {column.type}, it must be a timestamp")
    times = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    if times.null_count:
        times = times.fill_null(timestamp_ms)
    buffer = times.buffers()[1]
    return None if buffer is None else _view(buffer)[8 * times.offset :]


def _bits(column: pa.Array, valid: pa.Buffer | None) -> memoryview | None:
    return _view(valid) if column.null_count and valid is not None else None


def _view_or_none(buffer: pa.Buffer | None) -> memoryview | None:
    return None if buffer is None else _view(buffer)


def _view(buffer: pa.Buffer) -> memoryview:
    return memoryview(buffer).cast("B")
