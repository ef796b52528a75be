"""What a leader checks in the header of a produced batch (replication.md §4.1, rows 5 to 7).

One small function per row. The first one that objects decides the answer.
"""

from typing import NamedTuple

from tidelog.wire.records import compression
from tidelog.wire.records.errors import (
    BatchTooLarge,
    CorruptBatch,
    InvalidBatch,
    InvalidTimestampType,
    TruncatedBatch,
    UnsupportedCodec,
)
from tidelog.wire.records.header import (
    LENGTH_OVERHEAD,
    BatchHeader,
    Buffer,
    check_crc,
    read_header,
)


class ClientLimits(NamedTuple):
    """What this request may contain. `allow_zstd` is false below Produce v7 (KIP-110).

    `max_items` bounds the records of a batch more tightly than for readers: without the compiled
    walk each of them costs about 2 µs.
    """

    max_message_bytes: int = 1_048_588
    max_items: int = 250_000
    allow_zstd: bool = True


DEFAULT_CLIENT_LIMITS = ClientLimits()


def validate_client_batch(
    buffer: Buffer, limits: ClientLimits = DEFAULT_CLIENT_LIMITS
) -> BatchHeader:
    """The header of the one intact batch in `buffer`; raises an InvalidBatch otherwise. Whether
    its records are what the header says: `walk`."""
    header = read_header(buffer) if len(buffer) else None
    if header is None or not (
        is_plain(header, len(buffer), limits) and check_crc(buffer, 0, header)
    ):
        header = check_single_batch(buffer, limits.max_message_bytes)
        check_checksum(buffer, header)
        check_shape(header)
        check_record_count(header, limits.max_items)
        check_codec(header, allow_zstd=limits.allow_zstd)
    return header


def is_plain(header: BatchHeader, size_bytes: int, limits: ClientLimits) -> bool:
    """What nearly every batch is: rows 5 and 7 in one look, without the codecs that not every
    client may use. The others are gone through row by row, for the one that objects."""
    base_offset, length, _, _, _, attributes, delta, _, _, producer_id, epoch, sequence, count = (
        header
    )
    return (
        attributes <= compression.LZ4  # and so no bit above the codec
        and attributes >= 0
        and length + LENGTH_OVERHEAD == size_bytes <= limits.max_message_bytes
        and base_offset == 0
        and 0 < count == delta + 1
        and count <= limits.max_items
        and (producer_id < 0 or (sequence >= 0 and epoch >= 0))
    )


def check_single_batch(buffer: Buffer, max_message_bytes: int) -> BatchHeader:
    """Row 5: exactly one v2 batch, its offset not chosen by the client, not too large."""
    if len(buffer) == 0:
        raise InvalidBatch("a produce request must carry a record batch")
    header = read_header(buffer)
    if header.size_bytes > max_message_bytes:
        raise BatchTooLarge(
            f"batch of {header.size_bytes} bytes, max.message.bytes is {max_message_bytes}"
        )
    if header.size_bytes > len(buffer):
        raise TruncatedBatch(f"batch of {header.size_bytes} bytes, only {len(buffer)} were sent")
    if header.size_bytes < len(buffer):
        raise InvalidBatch(
            f"{len(buffer) - header.size_bytes} bytes follow the batch: "
            "a produce request carries exactly one batch per partition"
        )
    if header.base_offset != 0:
        raise InvalidBatch(f"base offset is {header.base_offset}, clients must send 0")
    return header


def check_checksum(buffer: Buffer, header: BatchHeader) -> None:
    """Row 6."""
    if not check_crc(buffer, 0, header):
        raise CorruptBatch("the checksum of the batch is wrong")


def check_shape(header: BatchHeader) -> None:
    """Row 7, as far as the header tells."""
    if header.record_count == 0 or header.last_offset_delta + 1 != header.record_count:
        raise InvalidBatch(
            f"record count {header.record_count} does not fit "
            f"last offset delta {header.last_offset_delta}"
        )
    if header.is_control:
        raise InvalidBatch("clients may not write control batches")
    if header.has_delete_horizon:
        raise InvalidBatch("clients may not set a delete horizon")
    if header.uses_log_append_time:
        raise InvalidTimestampType("clients may not claim log append time")
    if header.producer_id >= 0:
        if header.base_sequence < 0 or header.producer_epoch < 0:
            raise InvalidBatch(
                f"producer {header.producer_id} sent base sequence {header.base_sequence} "
                f"and producer epoch {header.producer_epoch}"
            )
    elif header.is_transactional:
        raise InvalidBatch("a transactional batch must name its producer")


def check_record_count(header: BatchHeader, max_items: int) -> None:
    """Too many for whoever reads them later; a Java client splits the batch then."""
    if header.record_count > max_items:
        raise BatchTooLarge(f"{header.record_count} records in one batch, limit is {max_items}")


def check_codec(header: BatchHeader, *, allow_zstd: bool) -> None:
    """Only the five codecs, and zstd only from clients whose version knows it."""
    if header.codec not in compression.CODEC_NAMES:
        raise UnsupportedCodec(f"there is no compression codec {header.codec}")
    if header.codec == compression.ZSTD and not allow_zstd:
        raise UnsupportedCodec("zstd needs Produce version 7 or higher")
