"""Record batches become columns: the records that a reader may see, and no others."""

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.batches import batch, marker
from support.kernels import both_kernels, regions, rows_of, using, wanted_rows
from tidelog.wire import records
from tidelog.wire.arrow import (
    RECORD_COLUMNS,
    RECORD_COLUMNS_WITH_HEADERS,
    AbortedRange,
    InvalidColumns,
    Selection,
    decode_columns,
    record_schema,
    scan_batches,
)
from tidelog.wire.kernel import choice
from tidelog.wire.records import (
    BatchTooLarge,
    CorruptBatch,
    DecodeLimits,
    InvalidBatch,
    InvalidRecord,
    Record,
)

quick = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
ORDERS = Selection("orders", 3)


def values_of(region: bytes, selection: Selection = ORDERS) -> list[bytes | None]:
    return [row.value for row in rows_of(region, selection)]


aborted_ranges = st.lists(
    st.builds(
        lambda producer, first, more: AbortedRange(producer, first, first + more),
        st.integers(0, 2),
        st.integers(0, 20) | st.integers(2**31, 2**31 + 20),
        st.integers(0, 9),
    ),
    max_size=4,
).map(tuple)


@both_kernels
@quick
@given(st.data())
def test_columns_say_what_wire_records_says(kernel: choice.Kernel, data: st.DataObject) -> None:
    region = data.draw(regions())
    headers = [header for _, header in records.iter_batches(region)]
    within = st.integers(headers[0].base_offset, headers[-1].last_offset + 1)
    selection = ORDERS._replace(
        from_offset=data.draw(st.just(0) | within),
        to_offset=data.draw(st.just(2**63 - 1) | within),
        aborted=data.draw(aborted_ranges),
    )
    with using(kernel):
        found = rows_of(region, selection, piece_bytes=data.draw(st.sampled_from([1, 300, 2**21])))
    assert found == wanted_rows(region, selection)


@both_kernels
def test_the_schema_is_the_one_that_spark_demands(kernel: choice.Kernel) -> None:
    with using(kernel):
        region = bytes(batch(b"a", b"b"))
        table = scan_batches(region)
        selection = ORDERS._replace(columns=RECORD_COLUMNS_WITH_HEADERS)
        (piece,) = decode_columns(region, table, selection)
    assert piece.schema == pa.schema(
        [
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary()),
            pa.field("topic", pa.string()),
            pa.field("partition", pa.int32()),
            pa.field("offset", pa.int64()),
            pa.field("timestamp", pa.timestamp("us", tz="UTC")),
            pa.field("timestampType", pa.int32()),
            pa.field(
                "headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
            ),
        ]
    )
    assert all(field.nullable for field in piece.schema)
    assert record_schema().names == list(RECORD_COLUMNS)


@both_kernels
@pytest.mark.parametrize("columns", [("offset",), ("value", "key"), ("topic",), ("headers",)])
def test_only_the_columns_asked_for_are_made(
    kernel: choice.Kernel, columns: tuple[str, ...]
) -> None:
    region = bytes(batch(b"a", b"b"))
    whole = {"offset": [0, 1], "value": [b"a", b"b"], "key": [None, None]}
    whole |= {"topic": ["orders", "orders"], "headers": [None, None]}
    with using(kernel):
        selection = ORDERS._replace(columns=columns)
        (piece,) = decode_columns(region, scan_batches(region), selection)
    assert piece.to_pydict() == {name: whole[name] for name in columns}
    assert piece.schema.names == list(columns)


def test_a_column_that_records_do_not_have_is_named() -> None:
    with pytest.raises(InvalidColumns, match="no column size; there are key, value"):
        record_schema(("key", "size"))


@both_kernels
def test_markers_and_aborted_transactions_are_no_records(kernel: choice.Kernel) -> None:
    lost = batch(b"lost", producer=7, sequence=0, transactional=True)
    kept = batch(b"kept", base_offset=1, producer=8, sequence=0, transactional=True)
    idempotent = batch(b"idempotent", base_offset=2, producer=7, sequence=1)
    abort = marker(7, commit=False)
    records.stamp(abort, 0, base_offset=3, leader_epoch=0)
    again = batch(b"again", base_offset=4, producer=7, sequence=1, transactional=True)
    region = bytes(lost + kept + idempotent + abort + again)
    with using(kernel):
        everything = [b"lost", b"kept", b"idempotent", b"again"]
        assert values_of(region) == everything
        committed = ORDERS._replace(aborted=(AbortedRange(7, 0, 3),))
        assert values_of(region, committed) == everything[1:]


@both_kernels
def test_overlapping_aborted_ranges_count_as_one(kernel: choice.Kernel) -> None:
    region = b"".join(
        bytes(batch(b"%d" % n, base_offset=n, producer=7, sequence=n, transactional=True))
        for n in range(12)
    )
    ranges = (AbortedRange(7, 1, 9), AbortedRange(7, 2, 3), AbortedRange(6, 11, 11))
    with using(kernel):
        assert values_of(region, ORDERS._replace(aborted=ranges)) == [b"0", b"10", b"11"]


@both_kernels
def test_log_append_time_is_the_time_of_every_record(kernel: choice.Kernel) -> None:
    stamped = batch(b"a", b"b", time_ms=5)
    records.stamp_log_append_time(stamped, 0, 77)
    region = bytes(stamped + batch(b"c", base_offset=2, time_ms=5))
    with using(kernel):
        found = [(row.timestamp_us, row.timestamp_type) for row in rows_of(region, ORDERS)]
    assert found == [(77_000, 1), (77_000, 1), (5_000, 0)]


@both_kernels
def test_pieces_end_near_the_size_asked_for(kernel: choice.Kernel) -> None:
    value = bytes(1000)
    region = b"".join(bytes(batch(*[value] * 10, base_offset=10 * number)) for number in range(40))
    with using(kernel):
        table = scan_batches(region)
        pieces = list(decode_columns(region, table, ORDERS, piece_bytes=100_000))
    assert [piece.num_rows for piece in pieces] == [100, 100, 100, 100]


@both_kernels
@pytest.mark.parametrize("codec", sorted(records.CODEC_NAMES))
def test_one_huge_batch_is_cut_into_pieces(kernel: choice.Kernel, codec: int) -> None:
    rows = [Record(n, 5, None, bytes(1000)) for n in range(1000)]
    region = bytes(records.encode(rows, codec=codec))
    with using(kernel):
        table = scan_batches(region)
        pieces = list(decode_columns(region, table, ORDERS, piece_bytes=100_000))
    assert max(piece.nbytes for piece in pieces) < 300_000
    assert [n for piece in pieces for n in piece["offset"].to_pylist()] == list(range(1000))


@both_kernels
def test_many_small_bombs_do_not_add_up(kernel: choice.Kernel) -> None:
    """Each stays within the limit of a batch; together they are 300 MB from 300 KB."""
    bombs = b"".join(
        bytes(records.encode([Record(n, 5, None, bytes(10**6))], base_offset=n, codec=records.ZSTD))
        for n in range(300)
    )
    with using(kernel):
        largest = 0
        for piece in decode_columns(bombs, scan_batches(bombs), ORDERS):
            largest = max(largest, piece.nbytes)
    assert largest < 4 * 1024 * 1024


# ---- bytes that went bad ----


@both_kernels
def test_records_before_a_broken_batch_are_read_and_then_it_raises(kernel: choice.Kernel) -> None:
    region = batch(b"a") + batch(b"b", base_offset=1) + batch(b"c", base_offset=2)
    region[2 * len(region) // 3 - 1] ^= 1
    with using(kernel):
        pieces = decode_columns(region, scan_batches(region), ORDERS)
        assert next(pieces)["value"].to_pylist() == [b"a"]
        with pytest.raises(CorruptBatch, match="the batch at offset 1 is wrong"):
            next(pieces)
        only_first = ORDERS._replace(to_offset=1)
        (piece,) = decode_columns(region, scan_batches(region), only_first)
        assert piece.num_rows == 1


@both_kernels
@pytest.mark.parametrize(("position", "byte"), [(22, 0x20), (60, 0), (22, 0x10)])
def test_damage_cannot_hide_a_batch(kernel: choice.Kernel, position: int, byte: int) -> None:
    """A flipped bit must not make it a control batch, an empty one or an aborted one."""
    region = batch(b"a", producer=7, sequence=0)
    region[position] = byte
    aborted = ORDERS._replace(aborted=(AbortedRange(7, 0, 9),))
    with using(kernel), pytest.raises(CorruptBatch):
        list(decode_columns(region, scan_batches(region), aborted))


@both_kernels
@pytest.mark.parametrize("codec", sorted(records.CODEC_NAMES))
def test_what_is_too_much_is_refused_as_in_wire_records(kernel: choice.Kernel, codec: int) -> None:
    headers = (("h", b""), ("h", b""))
    rows = [Record(n, 5, None, bytes(500), headers) for n in range(20)]
    region = bytes(records.encode(rows, codec=codec))
    for limits in (DecodeLimits(9000, 100), DecodeLimits(2**20, 19), DecodeLimits(2**20, 59)):
        with pytest.raises(BatchTooLarge) as wanted:
            records.decode(region, limits)
        with using(kernel), pytest.raises(BatchTooLarge) as raised:
            list(decode_columns(region, scan_batches(region), ORDERS, limits=limits))
        assert str(raised.value) == str(wanted.value)
    with using(kernel):
        allowed = DecodeLimits(2**20, 60)
        (piece,) = decode_columns(region, scan_batches(region), ORDERS, limits=allowed)
    assert piece.num_rows == 20


@both_kernels
def test_a_table_of_another_region_reads_nothing_outside(kernel: choice.Kernel) -> None:
    region = bytes(batch(b"a" * 1000, b"b"))
    with using(kernel):
        table = scan_batches(region)
        with pytest.raises(InvalidBatch):
            list(decode_columns(region[:500], table, ORDERS))
        with pytest.raises(InvalidRecord):
            list(decode_columns(region[:61] + bytes(len(region) - 61), table, ORDERS))
