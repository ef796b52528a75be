"""Columns become record batches: the right partition, the right bytes, the right sizes."""

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.kernels import COMPILED, KERNELS, both_kernels, payloads, record_headers, using
from tidelog.client.partitioner import partition_of_key
from tidelog.wire import records
from tidelog.wire.arrow import (
    BatchSettings,
    InvalidColumns,
    Partitioner,
    encode_batches,
    record_schema,
    restamp,
)
from tidelog.wire.kernel import choice
from tidelog.wire.records import NONE, Record

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
HEADERS = record_schema(("headers",))[0].type
NOW_MS = 1_800_000_000_000


def table_of(rows: list[Record], partitions: list[int | None] | None = None) -> pa.RecordBatch:
    """A table with the key, value, headers and time of these records."""
    pairs = [[{"key": key, "value": value} for key, value in row.headers] or None for row in rows]
    columns = {
        "key": pa.array([row.key for row in rows], pa.binary()),
        "value": pa.array([row.value for row in rows], pa.binary()),
        "headers": pa.array(pairs, HEADERS),
        "timestamp": pa.array([row.timestamp for row in rows], pa.timestamp("ms", "UTC")),
    }
    if partitions is not None:
        columns["partition"] = pa.array(partitions, pa.int32())
    return pa.RecordBatch.from_pydict(columns)


def decoded(batches: dict[int, list[bytearray]]) -> dict[int, list[Record]]:
    """What a reader finds in every partition once a broker has numbered the batches."""
    found: dict[int, list[Record]] = {}
    for partition, some in batches.items():
        for batch in some:
            header = records.validate_client_batch(batch)
            assert (header.producer_id, header.base_sequence) == (-1, -1)
            found.setdefault(partition, []).extend(records.decode(batch))
    return found


readable_headers = record_headers.map(
    lambda pairs: tuple(
        (key.encode("utf-8", "replace").decode("utf-8"), value) for key, value in pairs
    )
)
record_rows = st.lists(
    st.builds(
        lambda *fields: Record(0, *fields),
        st.integers(0, 2**40) | st.sampled_from([-(2**60), 2**60]),
        payloads,
        payloads,
        readable_headers,
    ),
    max_size=25,
)


@both_kernels
@quick
@given(record_rows, st.sampled_from(sorted(records.CODEC_NAMES)), st.integers(62, 2000))
def test_rows_come_back_in_their_order(
    kernel: choice.Kernel, rows: list[Record], codec: int, batch_bytes: int
) -> None:
    setting = BatchSettings(codec, batch_bytes, max_items=9)
    with using(kernel):
        made = encode_batches(table_of(rows), Partitioner(1), timestamp_ms=NOW_MS, settings=setting)
    found = [record._replace(offset=0) for record in decoded(made).get(0, [])]
    assert found == rows
    for batch in made.get(0, []):
        header = records.read_header(batch)
        assert header.codec == codec
        assert codec != NONE or header.size_bytes <= batch_bytes or header.record_count == 1


@pytest.mark.skipif(COMPILED is None, reason="python hatch_build.py was not run")
@quick
@given(
    record_rows,
    st.sampled_from(sorted(records.CODEC_NAMES)),
    st.integers(62, 2000),
    st.integers(1, 7),
    st.data(),
)
def test_both_kernels_write_the_same_bytes(
    rows: list[Record], codec: int, batch_bytes: int, partitions: int, data: st.DataObject
) -> None:
    chosen = st.lists(
        st.none() | st.integers(0, partitions - 1), min_size=len(rows), max_size=len(rows)
    )
    table = table_of(rows, data.draw(st.none() | chosen))
    start = data.draw(st.integers(0, len(rows)))
    made = []
    for kernel in KERNELS:
        partitioner = Partitioner(partitions, sticky=2)
        setting = BatchSettings(codec, batch_bytes, max_items=30)
        with using(kernel):
            made.append(
                [
                    encode_batches(part, partitioner, timestamp_ms=NOW_MS, settings=setting)
                    for part in (table, table.slice(start), table.slice(0, start))
                ]
            )
        made[-1].append((partitioner.sticky, partitioner.sticky_bytes))
    assert made[0] == made[1]


@both_kernels
@quick
@given(record_rows.filter(len))
def test_uncompressed_batches_are_those_of_wire_records(
    kernel: choice.Kernel, rows: list[Record]
) -> None:
    numbered = [row._replace(offset=n) for n, row in enumerate(rows)]
    with using(kernel):
        made = encode_batches(table_of(rows), Partitioner(1), timestamp_ms=NOW_MS)
    if len(made[0]) == 1:
        assert made[0][0] == records.encode(numbered)


@both_kernels
@quick
@given(st.lists(st.binary(max_size=20), max_size=30), st.integers(1, 50))
def test_keys_go_where_javas_clients_send_them(
    kernel: choice.Kernel, keys: list[bytes], partitions: int
) -> None:
    rows = [Record(0, 5, key, b"v") for key in keys]
    with using(kernel):
        made = encode_batches(table_of(rows), Partitioner(partitions), timestamp_ms=NOW_MS)
    for partition, found in decoded(made).items():
        assert {partition_of_key(record.key or b"", partitions) for record in found} == {partition}
        wanted = [key for key in keys if partition_of_key(key, partitions) == partition]
        assert [record.key for record in found] == wanted


@both_kernels
def test_rows_without_a_key_stay_together_for_a_batch(kernel: choice.Kernel) -> None:
    rows = [Record(0, 5, None, b"%04d" % n * 100) for n in range(100)]
    partitioner = Partitioner(3, sticky=1)
    setting = BatchSettings(max_batch_bytes=4080)
    with using(kernel):
        made = encode_batches(table_of(rows), partitioner, timestamp_ms=NOW_MS, settings=setting)
        sizes = {partition: len(found) for partition, found in decoded(made).items()}
        assert sizes == {0: 30, 1: 40, 2: 30}  # ten at a time, beginning with partition 1
        assert (partitioner.sticky, partitioner.sticky_bytes) == (1, 4080)
        more = encode_batches(
            table_of(rows[:3]), partitioner, timestamp_ms=NOW_MS, settings=setting
        )
    assert list(more) == [2]


@both_kernels
def test_a_partition_column_decides_where_it_has_a_value(kernel: choice.Kernel) -> None:
    rows = [Record(0, 5, b"k", b"%d" % n) for n in range(4)]
    with using(kernel):
        made = encode_batches(table_of(rows, [4, None, 0, 4]), Partitioner(5), timestamp_ms=NOW_MS)
        by_key = partition_of_key(b"k", 5)
        values = {p: [some.value for some in found] for p, found in decoded(made).items()}
        assert values == {4: [b"0", b"3"], by_key: [b"1"], 0: [b"2"]}
        for wrong in (-1, 5):
            with pytest.raises(InvalidColumns, match=f"row 2 is for partition {wrong}, .* has 5"):
                encode_batches(
                    table_of(rows, [4, None, wrong, 4]), Partitioner(5), timestamp_ms=NOW_MS
                )


@both_kernels
def test_columns_of_many_types_are_understood(kernel: choice.Kernel) -> None:
    value = ["a", None, "c"]
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view()):
        table = pa.RecordBatch.from_pydict({"value": pa.array(value, kind)})
        with using(kernel):
            made = encode_batches(table, Partitioner(1), timestamp_ms=7)
        (found,) = decoded(made).values()
        assert [(row.value, row.key, row.timestamp) for row in found] == [
            (b"a", None, 7),
            (None, None, 7),
            (b"c", None, 7),
        ]


@both_kernels
def test_times_of_any_unit_become_milliseconds_and_null_is_now(kernel: choice.Kernel) -> None:
    for unit, factor in (("s", 0.001), ("ms", 1), ("us", 1000), ("ns", 10**6)):
        times = pa.array([int(5000 * factor), None], pa.timestamp(unit, "Europe/Berlin"))
        table = pa.RecordBatch.from_pydict({"value": [b"a", b"b"], "timestamp": times})
        with using(kernel):
            made = encode_batches(table, Partitioner(1), timestamp_ms=NOW_MS)
        assert [row.timestamp for row in decoded(made)[0]] == [5000, NOW_MS]


@both_kernels
@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"key": [b"a"]}, "no column value among key"),
        ({"value": [1]}, "column value is int64, it must be binary or string"),
        ({"value": [b"a"], "key": [1.5]}, "column key is double, it must be binary or string"),
        ({"value": [b"a"], "partition": ["x"]}, "column partition is string, it must be int"),
        ({"value": [b"a"], "partition": [2**40]}, "fits into 32 bits"),
        ({"value": [b"a"], "timestamp": [5]}, "column timestamp is int64, it must be a timestamp"),
        ({"value": [b"a"], "headers": ["x"]}, "column headers is string, it must be array<struct"),
        (
            {"value": [b"a"], "headers": pa.array([[{"key": None, "value": b""}]], HEADERS)},
            "row 0 has a header without a key",
        ),
        (
            {"value": [b"a", b"b"], "headers": pa.array([None, [None]], HEADERS)},
            "row 1 has a header without a key",
        ),
    ],
)
def test_columns_that_no_record_can_be_made_of_are_named(
    kernel: choice.Kernel, columns: dict[str, object], complaint: str
) -> None:
    table = pa.RecordBatch.from_pydict(columns)
    with using(kernel), pytest.raises(InvalidColumns, match=complaint):
        encode_batches(table, Partitioner(1), timestamp_ms=NOW_MS)


@both_kernels
def test_tables_without_rows_make_no_batches(kernel: choice.Kernel) -> None:
    rows = [Record(0, 5, b"k", b"v", (("h", b"x"),))]
    with using(kernel):
        assert encode_batches(table_of([]), Partitioner(3), timestamp_ms=NOW_MS) == {}
        sliced = table_of(rows * 9).slice(4, 0)
        assert encode_batches(sliced, Partitioner(3), timestamp_ms=NOW_MS) == {}


@both_kernels
def test_a_record_larger_than_a_batch_has_one_to_itself(kernel: choice.Kernel) -> None:
    rows = [Record(0, 5, None, bytes(size)) for size in (10, 5000, 10)]
    setting = BatchSettings(max_batch_bytes=1000)
    with using(kernel):
        made = encode_batches(table_of(rows), Partitioner(1), timestamp_ms=5, settings=setting)
    assert [records.read_header(batch).record_count for batch in made[0]] == [1, 1, 1]


@both_kernels
def test_encoded_batches_are_stamped_one_after_the_other(kernel: choice.Kernel) -> None:
    rows = [Record(0, 5, None, bytes(100)) for _ in range(30)]
    setting = BatchSettings(records.LZ4, max_batch_bytes=1000)
    with using(kernel):
        made = encode_batches(table_of(rows), Partitioner(1), timestamp_ms=5, settings=setting)
        sequence = 0
        for batch in made[0]:
            sequence = restamp(batch, 9, 1, sequence, transactional=True)
            header = records.validate_client_batch(batch)
            assert (header.producer_id, header.is_transactional) == (9, True)
    assert sequence == 30


@pytest.mark.skipif(COMPILED is None, reason="python hatch_build.py was not run")
def test_offsets_that_leave_their_data_are_refused_before_they_are_followed() -> None:
    """Arrow arrays are not checked by whoever builds them from buffers."""
    assert COMPILED is not None
    for offsets in ([0, 4, 100], [4, 0, 4], [-4, 0, 4]):
        raw = b"".join(n.to_bytes(4, "little", signed=True) for n in offsets)
        column = (None, raw, bytes(8), 0)
        with pytest.raises(ValueError, match="offsets of a column"):
            COMPILED.encoding.assign(
                2, keys=column, values=None, explicit=None, partitions=3, sticky=(0, 0),
                batch_bytes=9,
            )  # fmt: skip
