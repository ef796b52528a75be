"""Record batches as bytes: what we write, what we read, what we refuse."""

import contextlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.wire import records
from tidelog.wire.records import Record
from tidelog.wire.records.header import MAX_INT64, seal
from tidelog.wire.records.varints import read_varint, read_varlong, write_varint

calm = settings(deadline=None)
CODECS = sorted(records.CODEC_NAMES)
codec_names = [records.CODEC_NAMES[codec] for codec in CODECS]
every_codec = pytest.mark.parametrize("codec", CODECS, ids=codec_names)

THREE = [
    Record(0, 1_700_000_000_000, b"k0", b"first", (("trace", b"\x01\x02"), ("empty", None))),
    Record(1, 1_700_000_000_007, None, b"second"),
    Record(2, 1_699_999_999_999, b"k2", None),
]

# Written down field by field from the layout in replication.md §2.3.
GOLDEN_HEADER = struct.pack(
    ">qiibIhiqqqhii",
    1000,  # base offset
    49 + 52,  # batch length
    7,  # leader epoch
    2,  # magic
    0x11844C5C,  # checksum, computed by kafka-python
    0x10,  # transactional, not compressed
    2,  # last offset delta
    1_700_000_000_000,
    1_700_000_000_007,
    42,  # producer id
    3,  # producer epoch
    15,  # base sequence
    3,  # record count
)
GOLDEN_RECORDS = (
    b"\x3a\x00\x00\x00\x04k0\x0afirst\x04\x0atrace\x04\x01\x02\x0aempty\x01"
    b"\x18\x00\x0e\x02\x01\x0csecond\x00"
    b"\x10\x00\x01\x04\x04k2\x01\x00"
)


def encode_golden() -> bytearray:
    shifted = [record._replace(offset=1000 + record.offset) for record in THREE]
    return records.encode(
        shifted,
        base_offset=1000,
        leader_epoch=7,
        producer_id=42,
        producer_epoch=3,
        base_sequence=15,
        transactional=True,
    )


def resealed(batch: bytearray) -> bytearray:
    """The same bytes with the checksum made right, so that only the parser can object."""
    header = records.BatchHeader._make(struct.unpack_from(">qiibIhiqqqhii", batch))
    if header.size_bytes == len(batch):
        seal(batch, 0, header)
    return batch


def batch_around(body: bytes, record_count: int, *, codec: int = records.NONE) -> bytearray:
    """A batch with a good header and a good checksum around any bytes."""
    batch = records.encode([], last_offset_delta=max(record_count - 1, 0))
    struct.pack_into(">i", batch, 8, 49 + len(body))
    struct.pack_into(">h", batch, 21, codec)
    struct.pack_into(">i", batch, 57, record_count)
    return resealed(batch + body)


record_headers = st.lists(
    st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3
).map(tuple)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    """Rising offsets with gaps, as compaction leaves them; any timestamps, any order."""
    base = draw(st.integers(0, 2**62))
    timestamps = st.integers(-1, 2**45)
    offsets = sorted(draw(st.sets(st.integers(0, 2**20), min_size=1, max_size=12)))
    payloads = st.none() | st.binary(max_size=200)
    return [
        Record(
            base + offset, draw(timestamps), draw(payloads), draw(payloads), draw(record_headers)
        )
        for offset in offsets
    ]


def test_the_golden_batch_is_written_byte_by_byte_as_laid_out() -> None:
    assert bytes(encode_golden()) == GOLDEN_HEADER + GOLDEN_RECORDS


def test_the_golden_batch_is_read_back() -> None:
    batch = GOLDEN_HEADER + GOLDEN_RECORDS
    header = records.read_header(batch)
    assert records.check_crc(batch, 0, header)
    assert (header.base_offset, header.last_offset, header.next_offset) == (1000, 1002, 1003)
    assert (header.leader_epoch, header.producer_id, header.producer_epoch) == (7, 42, 3)
    assert (header.base_sequence, header.last_sequence) == (15, 17)
    assert header.size_bytes == len(batch)
    assert header.is_transactional
    assert not header.is_control
    assert not header.uses_log_append_time
    assert header.codec == records.NONE
    assert [r._replace(offset=r.offset - 1000) for r in records.decode(batch)] == THREE


@every_codec
@calm
@given(wanted=record_lists())
def test_what_is_encoded_is_decoded(codec: int, wanted: list[Record]) -> None:
    batch = records.encode(wanted, codec=codec, base_offset=wanted[0].offset)
    assert records.decode(batch) == wanted
    assert records.decode(memoryview(bytes(batch))) == wanted
    header = records.read_header(batch)
    assert header.max_timestamp == max(record.timestamp for record in wanted)
    assert header.last_offset == wanted[-1].offset


@calm
@given(st.integers(-(2**31), 2**31 - 1))
def test_varints_come_back(value: int) -> None:
    out = bytearray()
    write_varint(out, value)
    assert len(out) <= 5
    assert read_varint(bytes(out), 0) == (value, len(out))


@calm
@given(st.integers(-(2**63), 2**63 - 1))
def test_varlongs_come_back(value: int) -> None:
    out = bytearray()
    write_varint(out, value)
    assert len(out) <= 10
    assert read_varlong(bytes(out), 0) == (value, len(out))


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff\x10", b"\x80" * 5 + b"\x00", b"\xff" * 6])
def test_varints_that_are_too_long_or_too_large_are_refused(data: bytes) -> None:
    with pytest.raises(records.InvalidRecord):
        read_varint(data, 0)


@pytest.mark.parametrize("data", [b"\xff" * 9 + b"\x02", b"\x80" * 10 + b"\x00"])
def test_varlongs_that_are_too_long_or_too_large_are_refused(data: bytes) -> None:
    with pytest.raises(records.InvalidRecord):
        read_varlong(data, 0)


def test_the_leader_stamps_offset_and_epoch_without_touching_the_checksum() -> None:
    two = bytearray(b"other") + records.encode(THREE)
    before = records.read_header(two, 5)
    records.stamp(memoryview(two), 5, base_offset=77, leader_epoch=9)
    after = records.read_header(two, 5)
    assert after == before._replace(base_offset=77, leader_epoch=9)
    assert records.check_crc(two, 5, after)
    assert [record.offset for record in records.decode(two, position=5)] == [77, 78, 79]
    assert two[:5] == b"other"


def test_log_append_time_replaces_every_timestamp_and_the_checksum() -> None:
    batch = records.encode(THREE)
    records.stamp_log_append_time(batch, 0, 1_800_000_000_000)
    header = records.read_header(batch)
    assert header.uses_log_append_time
    assert header.max_timestamp == 1_800_000_000_000
    assert {record.timestamp for record in records.decode(batch)} == {1_800_000_000_000}


def test_sequences_wrap_like_kafkas() -> None:
    batch = records.encode(THREE, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    assert records.read_header(batch).last_sequence == 0
    assert records.read_header(records.encode(THREE)).last_sequence == -1


def test_compaction_may_leave_a_batch_without_records_that_keeps_its_offsets() -> None:
    batch = records.encode([], base_offset=10, last_offset_delta=4, producer_id=1)
    header = records.read_header(batch)
    assert (header.record_count, header.last_offset) == (0, 14)
    assert records.decode(batch) == []


def test_broken_utf8_in_a_header_key_survives_unchanged() -> None:
    good = records.encode([Record(0, 0, None, None, (("ab", b""),))])
    bad = resealed(bytearray(bytes(good).replace(b"ab", b"\xff\xfe")))
    (record,) = records.decode(bad)
    assert records.encode([record]) == bad


@calm
@given(st.lists(record_lists(), max_size=4), st.integers(0, 200))
def test_batches_are_walked_up_to_the_torn_tail(lists: list[list[Record]], cut: int) -> None:
    batches = [records.encode(some, base_offset=some[0].offset) for some in lists]
    data = b"".join(batches)
    kept = data[: max(len(data) - cut, 0)]
    wanted = []
    position = 0
    for batch in batches:
        if position + len(batch) <= len(kept):
            wanted.append((position, records.read_header(batch)))
        position += len(batch)
    assert list(records.iter_batches(kept)) == wanted


def test_garbage_between_batches_is_not_mistaken_for_a_torn_tail() -> None:
    data = records.encode(THREE) + bytes(100)
    walk = records.iter_batches(data)
    assert next(walk)[0] == 0
    with pytest.raises(records.InvalidBatch, match="magic is 0"):
        next(walk)


@every_codec
def test_every_truncation_is_a_truncated_batch(codec: int) -> None:
    batch = bytes(records.encode(THREE, codec=codec))
    for size in range(len(batch)):
        with pytest.raises(records.TruncatedBatch):
            records.decode(batch[:size])
        assert list(records.iter_batches(batch[:size])) == []


@every_codec
def test_every_flipped_bit_is_noticed_or_lies_outside_the_checksum(codec: int) -> None:
    batch = records.encode(THREE, codec=codec)
    for bit in range(len(batch) * 8):
        damaged = bytearray(batch)
        damaged[bit // 8] ^= 1 << (bit % 8)
        try:
            got = records.decode(damaged)
        except records.InvalidBatch:
            continue
        # Only base offset and leader epoch are unprotected: the same records, moved.
        assert bit // 8 < 8 or 12 <= bit // 8 < 16, bit
        moved = records.read_header(damaged).base_offset
        assert [record._replace(offset=record.offset - moved) for record in got] == THREE


@every_codec
def test_every_flipped_bit_behind_a_forged_checksum_is_read_or_refused(codec: int) -> None:
    batch = records.encode(THREE, codec=codec)
    for bit in range(len(batch) * 8):
        damaged = bytearray(batch)
        damaged[bit // 8] ^= 1 << (bit % 8)
        read_or_refuse(resealed(damaged))


@every_codec
@calm
@given(data=st.data(), wanted=record_lists())
def test_any_bytes_behind_a_forged_checksum_are_read_or_refused(
    codec: int, data: st.DataObject, wanted: list[Record]
) -> None:
    batch = records.encode(wanted, codec=codec, base_offset=wanted[0].offset)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(batch)))
        stop = data.draw(st.integers(start, min(start + 8, len(batch))))
        batch[start:stop] = data.draw(st.binary(max_size=8))
    if len(batch) >= 61:
        struct.pack_into(">i", batch, 8, len(batch) - 12)
        batch[16] = 2
        resealed(batch)
    read_or_refuse(batch)


@calm
@given(st.binary(max_size=150))
def test_random_bytes_are_refused_with_our_own_errors(data: bytes) -> None:
    read_or_refuse(bytearray(data))


def read_or_refuse(batch: bytearray) -> None:
    """Either a list of records or an InvalidBatch; anything else fails the test by escaping."""
    limits = records.DecodeLimits(max_decompressed_bytes=1 << 20)
    for read in (
        lambda: records.decode(batch, limits),
        lambda: records.control_type(batch),
        lambda: records.end_txn_marker(batch),
        lambda: records.validate_client_batch(batch),
        lambda: list(records.iter_batches(batch)),
    ):
        with contextlib.suppress(records.InvalidBatch):
            read()


def one_record(body: bytes) -> bytes:
    out = bytearray()
    write_varint(out, len(body))
    return bytes(out + body)


def varint(value: int) -> bytes:
    out = bytearray()
    write_varint(out, value)
    return bytes(out)


@pytest.mark.parametrize(
    ("story", "body", "record_count"),
    [
        ("a billion records in seven bytes", one_record(b"\0\0\0\1\1\0"), 10**9),
        ("more records than there are", one_record(b"\0\0\0\1\1\0"), 2),
        ("bytes after the last record", one_record(b"\0\0\0\1\1\0") + b"x", 1),
        ("record of negative length", varint(-6) + b"\0\0\0\1\1\0", 1),
        ("record longer than the batch", varint(2**31 - 1) + b"\0\0\0\1\1\0", 1),
        ("record shorter than a record", one_record(b"\0\0\0\1\1") + b"\0", 1),
        ("key past the record", one_record(b"\0\0\0" + varint(2**31 - 1) + b"\1\0"), 1),
        ("key of length -2", one_record(b"\0\0\0" + varint(-2) + b"\1\0"), 1),
        ("value past the record", one_record(b"\0\0\0\1" + varint(5) + b"\0"), 1),
        ("value takes the next record", one_record(b"\0\0\0\1\x0c\0") + bytes(9), 1),
        ("a billion headers", one_record(b"\0\0\0\1\1" + varint(10**9)), 1),
        ("minus one headers", one_record(b"\0\0\0\1\1" + varint(-1)), 1),
        ("header without a key", one_record(b"\0\0\0\1\1\2\1\1"), 1),
        ("header past the record", one_record(b"\0\0\0\1\1\2\x20\1"), 1),
        ("bytes after the headers", one_record(b"\0\0\0\1\1\0\0"), 1),
        ("offset delta beyond the last", one_record(b"\0\0\2\1\1\0"), 1),
        ("negative offset delta", one_record(b"\0\0\1\1\1\0"), 1),
        ("the same offset twice", one_record(b"\0\0\0\1\1\0") * 2, 2),
        ("varint without an end", one_record(b"\0" + b"\x80" * 5 + b"\0\1\1\0"), 1),
        ("timestamp past 64 bits", one_record(b"\0" + varint(-(2**63)) + b"\0\1\1\0"), 1),
    ],
)
def test_lies_in_the_records_are_refused(story: str, body: bytes, record_count: int) -> None:
    with pytest.raises(records.InvalidRecord):
        records.decode(batch_around(body, record_count))


def test_the_batch_builder_of_these_tests_can_build_a_good_one() -> None:
    batch = batch_around(one_record(b"\0\0\0\1\1\0"), 1)
    assert records.decode(batch) == [Record(0, -1, None, None)]


@pytest.mark.parametrize(
    ("format_", "position", "value", "reason"),
    [
        (">i", 8, 48, "shorter than a header"),
        (">i", 8, -1, "shorter than a header"),
        (">b", 16, 1, "magic is 1"),
        (">b", 16, -1, "magic is"),
        (">i", 57, -1, "may not be negative"),
        (">i", 23, -1, "may not be negative"),
        (">q", 0, -1, "out of range"),
        (">q", 0, MAX_INT64 - 2, "out of range"),
    ],
)
def test_absurd_headers_are_refused(format_: str, position: int, value: int, reason: str) -> None:
    batch = records.encode(THREE)
    struct.pack_into(format_, batch, position, value)
    with pytest.raises(records.InvalidBatch, match=reason) as caught:
        records.read_header(batch)
    assert not isinstance(caught.value, records.TruncatedBatch)


def test_a_short_header_that_no_byte_can_repair_is_invalid_not_truncated() -> None:
    batch = records.encode(THREE)
    batch[16] = 0
    with pytest.raises(records.InvalidBatch, match="magic is 0") as caught:
        records.read_header(batch[:17])
    assert not isinstance(caught.value, records.TruncatedBatch)
    with pytest.raises(records.TruncatedBatch):
        records.read_header(batch[:16])


def test_too_many_small_things_are_refused_before_they_cost_memory() -> None:
    limits = records.DecodeLimits(max_items=5)
    many = [Record(i, 0, None, None) for i in range(6)]
    assert len(records.decode(records.encode(many[:5]), limits)) == 5
    with pytest.raises(records.BatchTooLarge):
        records.decode(records.encode(many), limits)
    with pytest.raises(records.BatchTooLarge):
        records.decode(records.encode([Record(0, 0, None, None, (("", None),) * 5)]), limits)


def test_fields_that_fit_no_header_are_refused() -> None:
    with pytest.raises(records.InvalidBatch, match="does not fit"):
        records.encode(THREE, producer_epoch=2**15)
    with pytest.raises(records.InvalidRecord, match="do not fit"):
        records.encode([Record(0, -1, None, None), Record(1, 2**63 - 1, None, None)])
    with pytest.raises(records.InvalidRecord, match="no UTF-8 form"):
        records.encode([Record(0, 0, None, None, (("\ud800", None),))])


@pytest.mark.parametrize("commit", [True, False])
def test_transaction_markers_come_back(commit: bool) -> None:
    marker = records.EndTxnMarker(commit, 42, 3, 8)
    batch = records.encode_end_txn_marker(marker, timestamp_ms=5, base_offset=9, leader_epoch=2)
    header = records.read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.base_offset, header.last_offset, header.base_sequence) == (9, 9, -1)
    assert records.control_type(batch) == (records.COMMIT if commit else records.ABORT)
    assert records.end_txn_marker(batch) == marker
    (record,) = records.decode(batch)
    assert record.key == bytes([0, 0, 0, commit])
    assert record.value == bytes([0, 0, 0, 0, 0, 8])


def test_other_control_batches_are_no_transaction_markers() -> None:
    batch = records.encode_control(records.LEADER_CHANGE, b"who", timestamp_ms=5)
    assert records.control_type(batch) == records.LEADER_CHANGE
    assert records.end_txn_marker(batch) is None
    assert not records.read_header(batch).is_transactional
    assert records.control_type(records.encode(THREE)) == records.NOT_CONTROL
    assert records.end_txn_marker(records.encode(THREE)) is None


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\0\0\xff\xff", b"\xff\xff\0\0"])
def test_control_records_with_broken_keys_are_refused(key: bytes | None) -> None:
    batch = records.encode([Record(0, 0, key, b"")])
    batch[22] |= 0x20
    with pytest.raises(records.InvalidRecord):
        records.control_type(resealed(batch))


def test_a_marker_with_a_short_value_is_refused() -> None:
    batch = records.encode_control(records.COMMIT, b"\0\0\0", timestamp_ms=5)
    with pytest.raises(records.InvalidRecord):
        records.end_txn_marker(batch)
