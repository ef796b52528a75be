"""The records inside a batch, as objects. Needed by compaction, coordinators, lookups by time and
tools; on the way of a produce or a fetch through the log they are walked through at most (`walk`).

Every length is checked against the bytes that are left before anything is taken for it.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tidelog.wire.records import compression
from tidelog.wire.records.errors import (
    BatchTooLarge,
    CorruptBatch,
    InvalidBatch,
    InvalidRecord,
)
from tidelog.wire.records.header import (
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAX_INT32,
    MAX_INT64,
    MIN_INT64,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    check_crc,
    read_header,
    seal,
)
from tidelog.wire.records.varints import read_varint, read_varlong, write_varint

CREATE_TIME = 0
LOG_APPEND_TIME = 1

_SMALLEST_RECORD_BYTES = 7
"""Its length, attributes, two deltas, two absent lengths and a header count of zero."""
_SMALLEST_BODY_BYTES = _SMALLEST_RECORD_BYTES - 1
_SMALLEST_RECORD_HEADER_BYTES = 2

# Kafka's brokers do not look at header keys and its clients do not agree on what to do with
# broken UTF-8. This keeps such keys readable and unchanged on the way through us.
_KEY_ERRORS = "surrogateescape"


class Record(NamedTuple):
    """One record as a consumer sees it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class DecodeLimits(NamedTuple):
    """How much memory one batch may cost us.

    `max_items` bounds records plus their headers: each costs about a hundred bytes here
    however few it took on the wire.
    """

    max_decompressed_bytes: int = 64 * 1024 * 1024
    max_items: int = 1_000_000


DEFAULT_LIMITS = DecodeLimits()


def decode(
    batch: Buffer, limits: DecodeLimits = DEFAULT_LIMITS, *, position: int = 0
) -> list[Record]:
    """The records of the batch at `position`, checksum verified."""
    header = read_header(batch, position)
    if not check_crc(batch, position, header):
        raise CorruptBatch(f"the checksum of the batch at offset {header.base_offset} is wrong")
    return list(iter_records(batch, position, header, limits))


def iter_records(
    batch: Buffer, position: int, header: BatchHeader, limits: DecodeLimits = DEFAULT_LIMITS
) -> Iterator[Record]:
    """Like `decode`, record by record, for a header that was read and verified before."""
    data = _plain_records(batch, position, header, limits)
    count = header.record_count
    if count * _SMALLEST_RECORD_BYTES > len(data):
        raise InvalidRecord(f"{count} records cannot stand in {len(data)} bytes")
    if count > limits.max_items:
        raise BatchTooLarge(f"{count} records in one batch, the limit is {limits.max_items}")
    size = len(data)
    headers_left = limits.max_items - count
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    next_offset, last_offset = base_offset, header.last_offset
    append_time = header.uses_log_append_time
    end = 0
    for index in range(count):
        try:
            length, start = read_varint(data, end)
            end = start + length
            if length < _SMALLEST_BODY_BYTES or end > size:
                raise InvalidRecord(f"record {index}: {length} bytes where {size - start} are left")
            record = _read_record(data, start, end, base_offset, base_timestamp)
        except IndexError:
            raise InvalidRecord(f"the bytes of record {index} end inside a number") from None
        offset = record.offset
        if offset < next_offset or offset > last_offset:
            raise InvalidRecord(f"record {index} has offset delta {offset - base_offset}")
        next_offset = offset + 1
        if record.headers:
            headers_left -= len(record.headers)
            if headers_left < 0:
                raise BatchTooLarge(f"more than {limits.max_items} records and headers in a batch")
        yield record._replace(timestamp=header.max_timestamp) if append_time else record
    if end != size:
        raise InvalidRecord(f"{size - end} bytes follow the last of {count} records")


def encode(
    records: Iterable[Record],
    *,
    codec: int = compression.NONE,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    timestamp_type: int = CREATE_TIME,
    last_offset_delta: int | None = None,
) -> bytearray:
    """A batch of these records, whose offsets rise and do not lie below `base_offset`.

    `last_offset_delta` is for compaction: the batch keeps its range of offsets, and with it
    its sequences, when records at its end are gone or even all of them.
    """
    attributes = codec | (TRANSACTIONAL_BIT if transactional else 0)
    attributes |= LOG_APPEND_TIME_BIT if timestamp_type == LOG_APPEND_TIME else 0
    body = _encode_records(records, base_offset)
    delta = body.last_delta if last_offset_delta is None else last_offset_delta
    assert body.last_delta <= delta <= MAX_INT32, (body.last_delta, delta)
    return build_batch(
        BatchHeader(
            base_offset=base_offset,
            batch_length=0,
            leader_epoch=leader_epoch,
            magic=MAGIC,
            crc=0,
            attributes=attributes,
            last_offset_delta=max(delta, 0),
            base_timestamp=body.base_timestamp,
            max_timestamp=body.max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=body.record_count,
        ),
        body.data,
    )


def rewrite(
    header: BatchHeader, kept: Iterable[Record], *, delete_horizon_ms: int | None = None
) -> bytearray:
    """A batch with only these of its records, for compaction. Its range of offsets and its
    sequences stay; without records its time stays too, for indexes and producers.

    `delete_horizon_ms` is entered as KIP-534 has it: a bit in the attributes, and the time in
    the place of the base timestamp. Record times are told from there, so they do not change.
    """
    attributes, base_timestamp = header.attributes, header.base_timestamp
    if delete_horizon_ms is not None:
        attributes, base_timestamp = attributes | DELETE_HORIZON_BIT, delete_horizon_ms
    body = _encode_records(kept, header.base_offset, base_timestamp)
    assert body.last_delta <= header.last_offset_delta, (body.last_delta, header)
    if body.record_count == 0:
        attributes &= ~(CODEC_MASK | DELETE_HORIZON_BIT)
        base_timestamp = header.max_timestamp
    keeps_time = body.record_count == 0 or header.uses_log_append_time
    header = header._replace(
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=header.max_timestamp if keeps_time else body.max_timestamp,
        record_count=body.record_count,
    )
    return build_batch(header, body.data)


class EncodedRecords(NamedTuple):
    """Plain record bytes and what a header says about them."""

    data: bytearray
    record_count: int
    last_delta: int
    base_timestamp: int
    max_timestamp: int


def build_batch(header: BatchHeader, plain_records: Buffer) -> bytearray:
    """The bytes of a batch: records compressed as the header says, length and checksum set."""
    compressed = compression.compress(header.codec, plain_records)
    size_bytes = HEADER_SIZE + len(compressed)
    if size_bytes - LENGTH_OVERHEAD > MAX_INT32:
        raise BatchTooLarge(f"{size_bytes} bytes do not fit into one batch")
    header = header._replace(batch_length=size_bytes - LENGTH_OVERHEAD)
    batch = bytearray(size_bytes)
    try:
        HEADER.pack_into(batch, 0, *header)
    except struct.error as error:
        raise InvalidBatch(f"{header} does not fit its fields: {error}") from None
    batch[HEADER_SIZE:] = compressed
    seal(batch, 0, header)
    return batch


def _plain_records(
    batch: Buffer, position: int, header: BatchHeader, limits: DecodeLimits
) -> bytes:
    section = memoryview(batch)[position + HEADER_SIZE : position + header.size_bytes]
    return compression.decompress(header.codec, section, limits.max_decompressed_bytes)


def _read_record(
    data: bytes, start: int, end: int, base_offset: int, base_timestamp: int
) -> Record:
    """One record between two positions. One-byte numbers are read inline: most are."""
    position = start + 1  # record attributes are unused
    byte = data[position]
    if byte < 0x80:
        timestamp = base_timestamp + ((byte >> 1) ^ -(byte & 1))
        position += 1
    else:
        delta, position = read_varlong(data, position)
        timestamp = base_timestamp + delta
    if timestamp > MAX_INT64 or timestamp < MIN_INT64:
        raise InvalidRecord(f"timestamp {timestamp} does not fit into 64 bits")
    byte = data[position]
    if byte < 0x80:
        offset = base_offset + ((byte >> 1) ^ -(byte & 1))
        position += 1
    else:
        delta, position = read_varint(data, position)
        offset = base_offset + delta
    key, position = _read_bytes(data, position, end)
    value, position = _read_bytes(data, position, end)
    if position == end - 1 and data[position] == 0:
        return Record(offset, timestamp, key, value)
    headers, position = _read_record_headers(data, position, end)
    if position != end:
        raise InvalidRecord(f"record ends {end - position} bytes before its length says")
    return Record(offset, timestamp, key, value, headers)


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    byte = data[position]
    if byte < 0x80:
        length = (byte >> 1) ^ -(byte & 1)
        position += 1
    else:
        length, position = read_varint(data, position)
    if length < 0:
        if length != -1:
            raise InvalidRecord(f"key or value of {length} bytes")
        return None, position
    stop = position + length
    if stop > end:
        raise InvalidRecord(f"key or value of {length} bytes where {end - position} are left")
    return data[position:stop], stop


def _read_record_headers(
    data: bytes, position: int, end: int
) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, position = read_varint(data, position)
    if count < 0 or count * _SMALLEST_RECORD_HEADER_BYTES > end - position:
        raise InvalidRecord(f"{count} record headers where {end - position} bytes are left")
    headers = []
    for _ in range(count):
        key, position = _read_bytes(data, position, end)
        if key is None:
            raise InvalidRecord("a record header without a key")
        value, position = _read_bytes(data, position, end)
        headers.append((key.decode("utf-8", _KEY_ERRORS), value))
    return tuple(headers), position


def _encode_records(
    records: Iterable[Record], base_offset: int, fixed_base_timestamp: int | None = None
) -> EncodedRecords:
    data = bytearray()
    count = 0
    last_delta = -1
    base_timestamp = max_timestamp = NO_TIMESTAMP
    for record in records:
        if count == 0:
            base_timestamp = max_timestamp = record.timestamp
            if fixed_base_timestamp is not None:
                base_timestamp = fixed_base_timestamp
        delta = record.offset - base_offset
        assert last_delta < delta <= MAX_INT32, (last_delta, record.offset, base_offset)
        timestamp_delta = record.timestamp - base_timestamp
        if not MIN_INT64 <= timestamp_delta <= MAX_INT64:
            raise InvalidRecord(f"timestamps {timestamp_delta} ms apart do not fit into a batch")
        body = _encode_record(record, timestamp_delta, delta)
        write_varint(data, len(body))
        data += body
        max_timestamp = max(max_timestamp, record.timestamp)
        last_delta = delta
        count += 1
    return EncodedRecords(data, count, last_delta, base_timestamp, max_timestamp)


def _encode_record(record: Record, timestamp_delta: int, offset_delta: int) -> bytearray:
    body = bytearray(1)  # record attributes: unused, zero
    write_varint(body, timestamp_delta)
    write_varint(body, offset_delta)
    _write_bytes(body, record.key)
    _write_bytes(body, record.value)
    write_varint(body, len(record.headers))
    for key, value in record.headers:
        try:
            _write_bytes(body, key.encode("utf-8", _KEY_ERRORS))
        except UnicodeEncodeError:
            raise InvalidRecord(f"header key {key!r} has no UTF-8 form") from None
        _write_bytes(body, value)
    return body


def _write_bytes(out: bytearray, data: bytes | None) -> None:
    if data is None:
        out.append(1)  # zigzag of -1
    else:
        write_varint(out, len(data))
        out += data
