"""Which headers a leader accepts from a producer: rows 5 to 7 of replication.md §4.1."""

import struct

import pytest

from tidelog.wire import records
from tidelog.wire.records import ClientLimits, Record
from tidelog.wire.records.header import seal

TWO = [Record(0, 5, b"a", b"1"), Record(1, 6, b"b", b"2")]


def with_field(format_: str, position: int, value: int) -> bytearray:
    """Two good records, one header field changed, the checksum made right again."""
    batch = records.encode(TWO)
    struct.pack_into(format_, batch, position, value)
    seal(batch, 0, records.BatchHeader._make(struct.unpack_from(">qiibIhiqqqhii", batch)))
    return batch


def with_attributes(bits: int) -> bytearray:
    return with_field(">h", 21, bits)


@pytest.mark.parametrize("codec", sorted(records.CODEC_NAMES))
def test_a_good_batch_is_accepted_and_left_alone(codec: int) -> None:
    batch = records.encode(TWO, codec=codec)
    before = bytes(batch)
    assert records.validate_client_batch(memoryview(batch)) == records.read_header(batch)
    assert batch == before


@pytest.mark.parametrize(
    ("batch", "kafka_error", "reason"),
    [
        (b"", 87, "must carry a record batch"),
        (records.encode(TWO)[:40], 87, "too few"),
        (records.encode(TWO)[:-1], 87, "were sent"),
        (records.encode(TWO) * 2, 87, "exactly one batch"),
        (records.encode(TWO) + b"x", 87, "exactly one batch"),
        (with_field(">b", 16, 1), 87, "magic is 1"),
        (records.encode([r._replace(offset=r.offset + 9) for r in TWO], base_offset=9), 87, "must"),
        (records.encode(TWO)[:-1] + b"\x07", 2, "checksum"),
        (with_field(">i", 57, 1), 87, "record count 1"),
        (with_field(">i", 57, 0), 87, "record count 0"),
        (with_field(">i", 23, 2), 87, "last offset delta 2"),
        (records.encode([], last_offset_delta=0), 87, "record count 0"),
        (with_attributes(0x20), 87, "control"),
        (with_attributes(0x40), 87, "delete horizon"),
        (with_attributes(0x08), 32, "log append time"),
        (with_attributes(0x10), 87, "name its producer"),
        (with_attributes(0x05), 76, "codec 5"),
        (records.encode(TWO, producer_id=1, producer_epoch=0), 87, "base sequence -1"),
        (records.encode(TWO, producer_id=1, base_sequence=0), 87, "producer epoch -1"),
        (records.encode_end_txn_marker(
            records.EndTxnMarker(True, 1, 0, 0), timestamp_ms=0), 87, "control"),
    ],
)  # fmt: skip
def test_a_bad_batch_is_refused_with_its_code_and_a_reason(
    batch: bytes, kafka_error: int, reason: str
) -> None:
    with pytest.raises(records.InvalidBatch, match=reason) as caught:
        records.validate_client_batch(batch)
    assert caught.value.kafka_error == kafka_error


def test_a_batch_above_the_limit_is_too_large_and_at_the_limit_is_not() -> None:
    batch = records.encode(TWO)
    records.validate_client_batch(batch, ClientLimits(max_message_bytes=len(batch)))
    with pytest.raises(records.BatchTooLarge) as caught:
        records.validate_client_batch(batch, ClientLimits(max_message_bytes=len(batch) - 1))
    assert caught.value.kafka_error == 10


def test_zstd_is_refused_from_clients_that_are_too_old_for_it() -> None:
    batch = records.encode(TWO, codec=records.ZSTD)
    with pytest.raises(records.UnsupportedCodec) as caught:
        records.validate_client_batch(batch, ClientLimits(allow_zstd=False))
    assert caught.value.kafka_error == 76


def test_more_records_than_readers_can_take_are_refused_by_the_header() -> None:
    with pytest.raises(records.BatchTooLarge, match="2 records"):
        records.validate_client_batch(records.encode(TWO), ClientLimits(max_items=1))


def test_a_header_that_leaves_offsets_out_is_refused() -> None:
    gap = [TWO[0], TWO[1]._replace(offset=2)]
    with pytest.raises(records.InvalidBatch, match="record count 2"):
        records.validate_client_batch(records.encode(gap))


def test_the_records_are_left_to_the_walk() -> None:
    assert records.validate_client_batch(with_attributes(0x01)).codec == records.GZIP
