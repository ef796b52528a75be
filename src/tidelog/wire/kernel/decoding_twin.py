"""The decoding half of the kernel in Python, on `wire.records`: for machines without a compiler,
and the slow, obvious judge of the compiled one. `_native.contract` has the promises.
"""

import struct
from array import array
from bisect import bisect_right

from tidelog._native import contract
from tidelog._native.contract import Buffer
from tidelog.wire.records import (
    DecodeLimits,
    InvalidBatch,
    Record,
    TruncatedBatch,
    check_crc,
    iter_batches,
    iter_records,
)
from tidelog.wire.records.header import CODEC_MASK, HEADER_SIZE, LENGTH_OVERHEAD, BatchHeader

_FIELD_COUNT = len(contract.FIELDS)
_ROW = struct.Struct(f"={_FIELD_COUNT}q")
_PLAN = struct.Struct(f"={len(contract.PLAN_FIELDS)}q")
_LAST_MICROSECOND = 2**63 - 1
_KEY_ERRORS = "surrogateescape"


def scan(region: Buffer, check_crc: bool) -> tuple[bytearray, int, int, bool]:
    rows: list[tuple[int, ...]] = []
    garbage = False
    end = 0
    try:
        for position, header in iter_batches(region):
            rows.append(_table_row(region, position, header, checked=check_crc))
            end = position + header.size_bytes
    except InvalidBatch:
        garbage = True
    columns = array("q")
    for column in zip(*rows, strict=True):
        columns.extend(column)
    return bytearray(columns.tobytes()), len(rows), end, garbage


def _table_row(
    region: Buffer, position: int, header: BatchHeader, *, checked: bool
) -> tuple[int, ...]:
    return (
        position,
        header.size_bytes,
        header.base_offset,
        header.last_offset,
        header.leader_epoch,
        header.attributes,
        header.record_count,
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.crc,
        int(check_crc(region, position, header)) if checked else -1,
    )


def pick(table: Buffer, from_offset: int, to_offset: int, aborted: Buffer) -> bytearray:
    ranges = list(struct.iter_unpack("=3q", aborted))
    plan = bytearray()
    for index, row in enumerate(_rows(table)):
        position, size_bytes, base_offset, last_offset = row[:4]
        header = _header_of(row)
        if last_offset < from_offset or base_offset >= to_offset:
            continue
        if row[-1] != 0 and _is_hidden(header, ranges):
            continue
        start, size_bytes = position + HEADER_SIZE, size_bytes - HEADER_SIZE
        plan += _PLAN.pack(index, -header.codec, start, size_bytes)
    return plan


def _rows(table: Buffer) -> list[tuple[int, ...]]:
    cells = memoryview(table).cast("B").cast("q")
    count = len(cells) // _FIELD_COUNT
    columns = [cells[field * count : (field + 1) * count] for field in range(_FIELD_COUNT)]
    return list(zip(*columns, strict=True))


def _header_of(row: tuple[int, ...]) -> BatchHeader:
    """The header that a row of a table was made of."""
    (_, size_bytes, base_offset, last_offset, leader_epoch, attributes, record_count) = row[:7]
    base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, crc = row[7:13]
    return BatchHeader(
        base_offset=base_offset,
        batch_length=size_bytes - LENGTH_OVERHEAD,
        leader_epoch=leader_epoch,
        magic=2,
        crc=crc,
        attributes=attributes,
        last_offset_delta=last_offset - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=record_count,
    )


def _is_hidden(header: BatchHeader, ranges: list[tuple[int, ...]]) -> bool:
    """True for batches that no consumer sees. Only ask where the checksum is not wrong."""
    if header.is_control or not header.is_transactional:
        return header.is_control
    producer_id, offset = header.producer_id, header.base_offset
    at = bisect_right(ranges, (producer_id, offset), key=lambda some: (some[0], some[1]))
    return at > 0 and ranges[at - 1][0] == producer_id and offset <= ranges[at - 1][2]


def advance(plan: Buffer, index: int, budget: int) -> tuple[int, int]:
    used = 0
    count = len(plan) // _PLAN.size
    while index < count and used < budget:
        _, source, _, size_bytes = _PLAN.unpack_from(plan, index * _PLAN.size)
        if source < 0:
            break
        used += size_bytes
        index += 1
    return index, used


def decode(
    region: Buffer,
    scratch: Buffer,
    table: Buffer,
    plan: Buffer,
    *,
    span: tuple[int, int],
    bounds: tuple[int, int],
    wanted: int,
    limits: tuple[int, int],
) -> tuple[int, int, int, dict[str, bytearray]]:
    rows = _rows(table)
    records: list[tuple[Record, int]] = []
    stopped = span[1]
    for index in range(*span):
        row, source, start, size_bytes = _PLAN.unpack_from(plan, index * _PLAN.size)
        header = _header_of(rows[row])
        kind = int(header.uses_log_append_time)
        header = header._replace(
            attributes=header.attributes & ~CODEC_MASK,
            batch_length=size_bytes + HEADER_SIZE - LENGTH_OVERHEAD,
        )
        place = scratch if source else region
        try:
            if rows[row][-1] == 0 or source < 0 or start + size_bytes > len(place):
                raise TruncatedBatch("its records are not there or not what they were")
            found = iter_records(place, start - HEADER_SIZE, header, DecodeLimits(*limits))
            records += [(some, kind) for some in list(found) if _within(some.offset, bounds)]
        except InvalidBatch:
            stopped = index
            break
    buffers = _columns(records, wanted)
    headers = sum(len(record.headers) for record, _ in records) if wanted & 32 else 0
    return len(records), stopped, headers, buffers


def _within(offset: int, bounds: tuple[int, int]) -> bool:
    return bounds[0] <= offset < bounds[1]


def _columns(records: list[tuple[Record, int]], wanted: int) -> dict[str, bytearray]:
    buffers: dict[str, bytearray] = {}
    if wanted & contract.WANT_KEY:
        _put_bytes(buffers, "key", [record.key for record, _ in records])
    if wanted & contract.WANT_VALUE:
        _put_bytes(buffers, "value", [record.value for record, _ in records])
    if wanted & contract.WANT_OFFSET:
        buffers["offset"] = _numbers("q", [record.offset for record, _ in records])
    if wanted & contract.WANT_TIMESTAMP:
        times = [_microseconds(record.timestamp) for record, _ in records]
        buffers["timestamp"] = _numbers("q", times)
    if wanted & contract.WANT_TIMESTAMP_TYPE:
        buffers["timestampType"] = _numbers("i", [kind for _, kind in records])
    if wanted & contract.WANT_HEADERS:
        _put_headers(buffers, [record for record, _ in records])
    return buffers


def _put_headers(buffers: dict[str, bytearray], records: list[Record]) -> None:
    offsets = [0]
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    for record in records:
        for key, value in record.headers:
            keys.append(_readable(key))
            values.append(value)
        offsets.append(len(keys))
    buffers["headers.offsets"] = _numbers("i", offsets)
    # A record without headers has null, not an empty list: so does the stock connector.
    if not all(record.headers for record in records):
        buffers["headers.valid"] = _bits([bool(record.headers) for record in records])
    _put_bytes(buffers, "headers.key", keys)
    _put_bytes(buffers, "headers.value", values)


def _readable(key: str) -> bytes:
    """Arrow's strings must be UTF-8: what is not becomes U+FFFD, as Java's clients do it."""
    return key.encode("utf-8", _KEY_ERRORS).decode("utf-8", "replace").encode("utf-8")


def _put_bytes(buffers: dict[str, bytearray], name: str, values: list[bytes | None]) -> None:
    offsets = [0]
    total = 0
    for value in values:
        total += len(value or b"")
        offsets.append(total)
    buffers[f"{name}.offsets"] = _numbers("i", offsets)
    buffers[f"{name}.data"] = bytearray().join([value or b"" for value in values])
    if None in values:
        buffers[f"{name}.valid"] = _bits([value is not None for value in values])


def _numbers(code: str, values: list[int]) -> bytearray:
    return bytearray(array(code, values).tobytes())


def _bits(flags: list[bool]) -> bytearray:
    bits = bytearray((len(flags) + 7) // 8)
    for index, flag in enumerate(flags):
        bits[index >> 3] |= flag << (index & 7)
    return bits


def _microseconds(timestamp_ms: int) -> int:
    """What is beyond the end of time stays at its end."""
    return max(-_LAST_MICROSECOND - 1, min(timestamp_ms * 1000, _LAST_MICROSECOND))
