"""The 61 bytes in front of every record batch (replication.md §2.3).

The produce path reads these and nothing else: base offset, length, leader epoch and magic
lie outside the checksum, so a leader stamps its offset and epoch in place and appends.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

import fastcrc

from tidelog.wire.records.errors import CorruptBatch, InvalidBatch, TruncatedBatch

Buffer = bytes | bytearray | memoryview
WritableBuffer = bytearray | memoryview

HEADER_SIZE = 61
LENGTH_OVERHEAD = 12
"""Bytes before and of the length field: it counts what follows."""
HEADER_SIZE_UP_TO_MAGIC = 17
MAGIC = 2

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1
MIN_INT64 = -(2**63)

CODEC_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

ATTRIBUTES_POSITION = 21
"""Where the bytes begin that the checksum covers."""
_LEADER_EPOCH_POSITION = 12
_MAGIC_POSITION = 16
_CRC_POSITION = 17
_MAX_TIMESTAMP_POSITION = 35

HEADER = struct.Struct(">qiibIhiqqqhii")
assert HEADER.size == HEADER_SIZE, (HEADER.size, HEADER_SIZE)
_unpack_header = HEADER.unpack_from
_new_header = tuple.__new__
_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_crc32c = fastcrc.crc32.iscsi
_INT16 = struct.Struct(">h")
_UINT32 = struct.Struct(">I")


class BatchHeader(NamedTuple):
    """The fixed part of a record batch, in the order of its bytes."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return self.batch_length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def offset_of_max_timestamp(self) -> int:
        """As near as the header of one batch tells."""
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def uses_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME_BIT != 0

    @property
    def has_delete_horizon(self) -> bool:
        """KIP-534: the base timestamp is then the time after which tombstones may go."""
        return self.attributes & DELETE_HORIZON_BIT != 0

    @property
    def last_sequence(self) -> int:
        """Sequences wrap from 2^31 - 1 to 0; -1 for a batch without them."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & MAX_INT32


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`. The records behind it need not be in the buffer.

    TruncatedBatch means "more bytes could make this a batch"; any other InvalidBatch means
    that no further byte can.
    """
    left = len(buffer) - position
    if left < HEADER_SIZE:
        _raise_for_short_header(buffer, position, left)
    fields = _unpack_header(buffer, position)
    header = _new_header(BatchHeader, fields)
    base_offset, length, _, magic, _, _, delta, _, _, _, _, _, count = fields
    if (
        magic != MAGIC
        or length < HEADER_SIZE - LENGTH_OVERHEAD
        or count < 0
        or delta < 0
        or base_offset < 0
        or base_offset >= MAX_INT64 - delta
    ):
        _raise_for_bad_header(header)
    return header


def _raise_for_bad_header(header: BatchHeader) -> None:
    if header.magic != MAGIC:
        raise InvalidBatch(f"magic is {header.magic}, only record batches of magic {MAGIC} exist")
    if header.batch_length < HEADER_SIZE - LENGTH_OVERHEAD:
        raise CorruptBatch(f"batch length {header.batch_length} is shorter than a header")
    if header.record_count < 0 or header.last_offset_delta < 0:
        raise InvalidBatch(
            f"record count {header.record_count} and last offset delta "
            f"{header.last_offset_delta} may not be negative"
        )
    raise InvalidBatch(f"base offset {header.base_offset} is out of range")


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """True if the bytes of the batch at `position` are the ones its header was made for."""
    return batch_crc(buffer, position, header) == header.crc


def batch_crc(buffer: Buffer, position: int, header: BatchHeader) -> int:
    """CRC-32C from the attributes to the end of the batch."""
    end = position + header.batch_length + LENGTH_OVERHEAD
    if end > len(buffer):
        raise TruncatedBatch(
            f"batch of {header.size_bytes} bytes, only {len(buffer) - position} are there"
        )
    crc: int = _crc32c(memoryview(buffer)[position + ATTRIBUTES_POSITION : end])
    return crc


def stamp(buffer: WritableBuffer, position: int, *, base_offset: int, leader_epoch: int) -> None:
    """Writes what the leader decides. Both fields lie outside the checksum."""
    assert 0 <= base_offset <= MAX_INT64, base_offset
    assert -1 <= leader_epoch <= MAX_INT32, leader_epoch
    if len(buffer) - position < HEADER_SIZE:
        raise TruncatedBatch(f"{len(buffer) - position} bytes are too few for a header")
    _INT64.pack_into(buffer, position, base_offset)
    _INT32.pack_into(buffer, position + _LEADER_EPOCH_POSITION, leader_epoch)


def stamp_log_append_time(buffer: WritableBuffer, position: int, timestamp_ms: int) -> None:
    """Makes `timestamp_ms` the time of every record of the batch (KIP-32).

    Attributes and max timestamp are inside the checksum, so it is computed again.
    """
    assert NO_TIMESTAMP <= timestamp_ms <= MAX_INT64, timestamp_ms
    header = read_header(buffer, position)
    if position + header.size_bytes > len(buffer):
        raise TruncatedBatch(
            f"batch of {header.size_bytes} bytes, only {len(buffer) - position} are there"
        )
    attributes = header.attributes | LOG_APPEND_TIME_BIT
    _INT16.pack_into(buffer, position + ATTRIBUTES_POSITION, attributes)
    _INT64.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, timestamp_ms)
    seal(buffer, position, header)


def stamp_max_timestamp(buffer: WritableBuffer, position: int, timestamp_ms: int) -> None:
    """Sets the newest timestamp of the records right; it is inside the checksum."""
    header = read_header(buffer, position)
    _INT64.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, timestamp_ms)
    seal(buffer, position, header)


def seal(buffer: WritableBuffer, position: int, header: BatchHeader) -> None:
    """Computes the checksum of the batch as it is now and writes it."""
    _UINT32.pack_into(buffer, position + _CRC_POSITION, batch_crc(buffer, position, header))


def iter_batches(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every whole batch. A torn tail ends it, garbage raises.

    Checksums are not looked at.
    """
    position = 0
    size = len(buffer)
    while position < size:
        try:
            header = read_header(buffer, position)
        except TruncatedBatch:
            return
        end = position + header.size_bytes
        if end > size:
            return
        yield position, header
        position = end


def _raise_for_short_header(buffer: Buffer, position: int, left: int) -> None:
    if left >= HEADER_SIZE_UP_TO_MAGIC:
        magic = buffer[position + _MAGIC_POSITION]
        if magic != MAGIC:
            raise InvalidBatch(f"magic is {magic}, only record batches of magic {MAGIC} exist")
        (length,) = _INT32.unpack_from(buffer, position + 8)
        if length < HEADER_SIZE - LENGTH_OVERHEAD:
            raise CorruptBatch(f"batch length {length} is shorter than a header")
    raise TruncatedBatch(f"{max(left, 0)} bytes are too few for a header of {HEADER_SIZE}")
