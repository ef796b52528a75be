"""The walk through the records of a produced batch: the compiled one and its twin say the same,
and both say what the slow reader says."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.wire.records import Buffer, InvalidBatch, Record, decode, encode, read_header
from tidelog.wire.records.header import HEADER_SIZE, seal
from tidelog.wire.records.varints import write_varint
from tidelog.wire.records.walk import NO_EARLIEST, Walk, compiled, walk_in_python

calm = settings(deadline=None)
MAX_ITEMS = 1_000
WALKS = [pytest.param(walk_in_python, id="python")]
if (native := compiled()) is not None:
    WALKS.append(pytest.param(native, id="compiled"))

both = pytest.mark.parametrize("walk", WALKS)


def walked(walk: Walk, batch: Buffer, max_items: int = MAX_ITEMS) -> tuple[int, int, int] | None:
    header = read_header(batch)
    return walk(batch, HEADER_SIZE, header.record_count, header.base_timestamp, max_items)


def said_by_the_slow_reader(batch: bytearray) -> tuple[int, int, int] | None:
    """The same from records that were read one by one."""
    try:
        records = decode(batch)
    except InvalidBatch:
        return None
    if [record.offset for record in records] != list(range(len(records))):
        return None
    times = [record.timestamp for record in records]
    return (
        sum(record.key is None for record in records),
        min([time for time in times if time != -1], default=NO_EARLIEST),
        max([-1, *times]),
    )


@both
def test_good_records_are_counted_and_their_times_told(walk: Walk) -> None:
    batch = encode(
        [
            Record(0, 50, b"a", b"1", (("h", b"x"), ("h", None))),
            Record(1, 40, None, None),
            Record(2, -1, None, b""),
            Record(3, 45, b"", b"v" * 300),
        ]
    )
    assert walked(walk, batch) == (2, 40, 50)


@both
def test_records_without_a_time_are_neither_early_nor_late(walk: Walk) -> None:
    assert walked(walk, encode([Record(0, -1, b"k", b"v")])) == (0, NO_EARLIEST, -1)


@both
def test_nothing_is_walked_through_by_both(walk: Walk) -> None:
    assert walk(b"", 0, 0, 0, MAX_ITEMS) == (0, NO_EARLIEST, -1)
    assert walk(b"", 0, 1, 0, MAX_ITEMS) is None
    assert walk(b"", 0, -1, 0, MAX_ITEMS) is None


@both
@pytest.mark.parametrize("start", [-1, 9, 2**40])
def test_no_start_outside_the_buffer_is_read_from(walk: Walk, start: int) -> None:
    assert walk(b"12345678", start, 0, 0, MAX_ITEMS) is None
    assert walk(b"12345678", 8, 0, 0, MAX_ITEMS) is not None


@both
def test_records_and_headers_together_have_a_limit(walk: Walk) -> None:
    batch = encode([Record(n, 0, b"k", b"v", (("h", b"x"),) * 3) for n in range(5)])
    assert walked(walk, batch, max_items=20) == (0, 0, 0)
    assert walked(walk, batch, max_items=19) is None
    assert walked(walk, batch, max_items=4) is None


@both
def test_any_kind_of_memory_is_walked(walk: Walk) -> None:
    batch = encode([Record(n, 7, b"k", b"v") for n in range(3)])
    padded = memoryview(b"#" + bytes(batch))[1:]
    assert walked(walk, bytes(batch)) == walked(walk, padded) == walked(walk, batch) == (0, 7, 7)


def record(body: bytes) -> bytes:
    out = bytearray()
    write_varint(out, len(body))
    return bytes(out + body)


GOOD = record(b"\0\0\0\1\1\0")


@both
@pytest.mark.parametrize(
    ("story", "plain", "count"),
    [
        ("five are claimed and one is there", GOOD, 5),
        ("a billion are claimed", GOOD, 10**9),
        ("one more is there than is claimed", GOOD + record(b"\0\0\2\1\1\0"), 1),
        ("bytes follow the last", GOOD + b"x", 1),
        ("a length goes past the end", record(b"\0\0\0\1\1\0")[:-1], 1),
        ("a length is negative", b"\x0b\0\0\0\1\1\0", 1),
        ("a length says less than a record needs", record(b"\0\0\0\1\1") + b"\0", 1),
        ("a length never ends", b"\x80" * 9, 1),
        ("a key goes past its record", record(b"\0\0\0\x20\1\0") + bytes(20), 1),
        ("a value of length -2", record(b"\0\0\0\1\3\0"), 1),
        ("a value takes the next record", record(b"\0\0\0\1\x0c\0") + bytes(9), 1),
        ("the first offset delta is 1", record(b"\0\0\2\1\1\0"), 1),
        ("an offset delta comes twice", GOOD * 2, 2),
        ("an offset delta is negative", record(b"\0\0\1\1\1\0"), 1),
        ("a header has no key", record(b"\0\0\0\1\1\2\1\1"), 1),
        ("more headers than bytes", record(b"\0\0\0\1\1\xfe\x01"), 1),
        ("minus one headers", record(b"\0\0\0\1\1\1"), 1),
        ("bytes follow the headers", record(b"\0\0\0\1\1\0\0"), 1),
    ],
)
def test_lies_are_found(walk: Walk, story: str, plain: bytes, count: int) -> None:
    assert walk(GOOD, 0, 1, 0, MAX_ITEMS) is not None
    assert walk(plain, 0, count, 0, MAX_ITEMS) is None, story


@both
def test_a_timestamp_beyond_64_bits_is_found(walk: Walk) -> None:
    plain = record(b"\0\2\0\1\1\0")  # one millisecond after the base
    assert walk(plain, 0, 1, 2**63 - 2, MAX_ITEMS) == (1, 2**63 - 1, 2**63 - 1)
    assert walk(plain, 0, 1, 2**63 - 1, MAX_ITEMS) is None


records_of_a_batch = st.lists(
    st.tuples(
        st.sampled_from([-1, 0, 1, 1_800_000_000_000]),
        st.none() | st.binary(max_size=4),
        st.none() | st.binary(max_size=200),
        st.lists(st.tuples(st.text("ab", max_size=3), st.none() | st.binary()), max_size=2),
    ),
    min_size=1,
    max_size=6,
)


@calm
@given(
    records_of_a_batch,
    st.lists(st.tuples(st.integers(0, 600), st.integers(1, 255)), max_size=3),
    st.integers(-1, 1),
)
def test_every_walk_says_what_the_slow_reader_says(parts, flips, more):
    """Of good batches, and of batches with flipped bits or a wrong count under a right checksum."""
    batch = encode(
        [Record(n, time, key, value, tuple(of)) for n, (time, key, value, of) in enumerate(parts)]
    )
    for position, bits in flips:
        batch[HEADER_SIZE + position % (len(batch) - HEADER_SIZE)] ^= bits
    count = len(parts) + more
    batch[57:61] = count.to_bytes(4, "big")
    batch[23:27] = max(count - 1, 0).to_bytes(4, "big")
    seal(batch, 0, read_header(batch))
    wanted = said_by_the_slow_reader(batch)
    for walk in filter(None, (walk_in_python, native)):
        assert walked(walk, batch) == wanted
