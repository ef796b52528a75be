"""Gaps of archives, filled from the topic while others write: no row is lost, none is doubled."""

import datetime as dt
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidelog.spark.failure import TidelogError
from tidelog.spark.pipelines import backfill, maintenance
from tidelog.spark.pipelines.backfill import Stretch, Work
from tidelog.spark.ranges import OffsetRange
from tidelog.spark.tables.files import open_file, write_files
from tidelog.spark.tables.forms import open_table
from tidelog.spark.tables.layouts import layout_of
from tidelog.spark.tables.words import BatchFiles, BatchId, TableFile, TableSpec
from tidelog.wire.arrow.schema import COLUMN_TYPES

MIDNIGHT = dt.datetime(2026, 11, 16, tzinfo=dt.UTC)
SCHEMA = pa.schema([*COLUMN_TYPES.items(), ("hour", pa.int32())])
WHOLE = OffsetRange("orders", 0, 0, 100)
QUERY = "backfill-mine"


def records(span, *, schema=SCHEMA, holes=()):
    """As a topic has them: one a minute; `holes` are offsets of no record."""
    rows = [
        {
            "key": None,
            "value": str(each).encode(),
            "topic": span.topic,
            "partition": span.partition,
            "offset": each,
            "timestamp": MIDNIGHT + dt.timedelta(minutes=each),
            "timestampType": 0,
            "headers": [{"key": "h", "value": b"1"}] if each % 2 else None,
            "hour": each // 60,
        }
        for each in range(span.start, span.end)
        if each not in holes
    ]
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def topic(*, holes=()):
    """The records of a topic, without the columns that only the table has."""
    raw = SCHEMA.remove(SCHEMA.get_field_index("hour"))

    def read(span):
        middle = (span.start + span.end) // 2
        for part in (span._replace(end=middle), span._replace(start=middle)):
            yield records(part, schema=raw, holes=holes)

    return read


@pytest.fixture(params=["delta", "iceberg"])
def form(request):
    return request.param


@pytest.fixture
def spec(form, tmp_path):
    made = TableSpec(str(tmp_path / "table"), form, ("partition", "hour"))
    open_table(made).prepare(SCHEMA)
    return made


def append(spec, number, start, end, *, partition=0, query="archive"):
    batch = BatchId(query, number)
    rows = records(OffsetRange("orders", partition, start, end))
    files = write_files(layout_of(spec, batch), SCHEMA, "part", [rows])
    return open_table(spec).commit(SCHEMA, BatchFiles(batch, files))


def rows_in(spec):
    found = []
    for file in open_table(spec).files():
        for rows in maintenance.rows_of(spec, file, SCHEMA):
            found += rows.to_pylist()
    return sorted(found, key=lambda each: (each["partition"], each["offset"]))


def offsets_in(spec, partition=0):
    return [each["offset"] for each in rows_in(spec) if each["partition"] == partition]


def fill(spec, *ranges, per_commit=1000, read=None):
    work = Work(spec, QUERY, read or topic(), per_commit)
    return list(backfill.fill(work, backfill.look(spec, QUERY, ranges or [WHOLE])))


def test_a_gap_is_filled_with_what_the_archive_would_have_written_and_once(spec):
    append(spec, 0, 0, 30)
    append(spec, 1, 55, 100)
    append(spec, 2, 30, 55, partition=1)
    (done,) = fill(spec)
    assert done == (25, 0, 1)
    wanted = records(WHOLE).to_pylist()
    assert [each for each in rows_in(spec) if each["partition"] == 0] == wanted
    assert fill(spec) == []
    assert offsets_in(spec, 1) == list(range(30, 55))


def test_offsets_of_no_record_are_asked_for_again_and_add_nothing(spec):
    append(spec, 0, 0, 40)
    assert [each.rows for each in fill(spec, read=topic(holes=range(50, 60)))] == [50]
    files = len(open_table(spec).files())
    assert fill(spec, read=topic(holes=range(50, 60))) == [(0, 0, 0)]
    assert len(open_table(spec).files()) == files


def test_a_run_that_ends_between_two_commits_is_gone_on_with(spec):
    append(spec, 0, 40, 50)
    work = Work(spec, QUERY, topic(), 20)
    first = next(backfill.fill(work, backfill.look(spec, QUERY, [WHOLE])))
    assert first.rows > 0
    assert offsets_in(spec) == [*range(first.rows), *range(40, 50)]
    rest = fill(spec, per_commit=20)
    assert sum(each.rows for each in rest) == 90 - first.rows
    assert offsets_in(spec) == list(range(100))


def test_a_run_that_ends_in_the_middle_of_a_piece_leaves_nothing_in_the_table(spec):
    append(spec, 0, 0, 10)

    def broken(span):
        yield next(topic()(span))
        raise TidelogError("the broker is gone", "start it")

    with pytest.raises(TidelogError, match="the broker is gone"):
        fill(spec, read=broken)
    assert offsets_in(spec) == list(range(10))
    assert [each.rows for each in fill(spec)] == [90]


def test_two_who_have_seen_the_same_gap_fill_it_once(spec):
    append(spec, 0, 0, 10)
    seen = backfill.look(spec, QUERY, [WHOLE])
    work = Work(spec, QUERY, topic(), 30)
    first = backfill.fill(work, seen)
    next(first)
    second = list(backfill.fill(work, seen))
    assert sum(each.rows for each in second) == 60, "it looked again after the first commit"
    assert sum(each.rows for each in first) == 0, "and so did the other one, however old its look"
    assert offsets_in(spec) == list(range(100))


def test_what_others_write_meanwhile_is_neither_lost_nor_doubled(form, tmp_path):
    """An archive goes on above the range, and two backfills fill it at once."""
    spec = TableSpec(str(tmp_path / "table"), form, ("hour",))
    open_table(spec).prepare(SCHEMA)
    append(spec, 0, 20, 30)
    failures = []

    def told(work):
        try:
            work()
        except Exception as error:  # told to the test
            failures.append(error)

    def archive():
        for number in range(1, 7):
            assert append(spec, number, 90 + number * 10, 100 + number * 10)

    def filler():
        fill(spec, per_commit=25)

    threads = [threading.Thread(target=told, args=(each,)) for each in (archive, filler, filler)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []
    assert offsets_in(spec) == list(range(160))


def test_files_that_have_no_row_of_the_range_are_not_opened(spec, monkeypatch):
    append(spec, 0, 0, 24)
    append(spec, 1, 24, 48)
    append(spec, 2, 0, 48, partition=1)
    opened = []

    def counted(*given):
        opened.append(given)
        return open_file(*given)

    monkeypatch.setattr(maintenance, "open_file", counted)
    backfill.lacking(spec, [OffsetRange("orders", 0, 30, 31)])
    assert (len(opened), len(open_table(spec).files())) == (1, 3)


def test_files_are_judged_by_place_and_offsets():
    span = OffsetRange("orders", 3, 100, 200)

    def file(values=(), offsets=None):
        return TableFile("f", "f", 1, 1, values, offsets)

    assert backfill.may_have(file(), span)
    assert backfill.may_have(file((("topic", "orders"), ("partition", "3")), (0, 100)), span)
    assert backfill.may_have(file((("date", "2026-11-16"),), (199, 500)), span)
    assert not backfill.may_have(file((("topic", "payments"),)), span)
    assert not backfill.may_have(file((("partition", "4"),)), span)
    assert not backfill.may_have(file(offsets=(0, 99)), span)
    assert not backfill.may_have(file(offsets=(200, 300)), span)


def test_holes_that_are_near_are_read_together_and_far_ones_apart():
    lacks = np.zeros(40_000, np.bool_)
    lacks[[3, 5, 20_000, 20_001]] = True
    stretch = Stretch(OffsetRange("t", 0, 1000, 41_000), lacks)
    found = [(each.span.start, each.span.end) for each in backfill.windows(stretch, 10_000)]
    assert found == [(1003, 1006), (21_000, 21_002)]
    whole = Stretch(OffsetRange("t", 0, 0, 25), np.ones(25, np.bool_))
    assert [each.span[2:] for each in backfill.windows(whole, 10)] == [(0, 10), (10, 20), (20, 25)]
    assert list(backfill.windows(whole._replace(lacks=np.zeros(25, np.bool_)), 10)) == []


def test_pieces_have_no_more_offsets_than_were_asked_for_and_all_of_them():
    stretches = [
        Stretch(OffsetRange("t", partition, 0, size), np.ones(size, np.bool_))
        for partition, size in enumerate((7, 3, 25, 1))
    ]
    found = list(backfill.pieces(stretches, 10))
    assert [sum(each.span.size for each in piece) for piece in found] == [10, 10, 10, 6]
    every = [(s.span.partition, o) for p in found for s in p for o in range(*s.span[2:])]
    assert every == [(p, o) for p, size in enumerate((7, 3, 25, 1)) for o in range(size)]


def test_hours_and_days_before_1970_are_those_of_utc():
    moments = [dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, dt.UTC), MIDNIGHT, None]
    raw = records(OffsetRange("t", 0, 0, 3)).drop_columns(["hour"])
    raw = raw.set_column(5, "timestamp", pa.array(moments, pa.timestamp("us", "UTC")))
    wanted = pa.schema([*COLUMN_TYPES.items(), ("date", pa.date32()), ("hour", pa.int32())])
    made = backfill.shaped(raw, wanted)
    assert made["hour"].to_pylist() == [23, 0, None]
    assert made["date"].to_pylist() == [dt.date(1969, 12, 31), MIDNIGHT.date(), None]


def test_json_values_become_the_struct_of_the_table_and_bad_ones_stop_or_are_skipped(
    form, tmp_path
):
    kind = pa.struct([("id", pa.int64())])
    schema = pa.schema([("value", kind), *[e for e in COLUMN_TYPES.items() if e[0] != "value"]])
    spec = TableSpec(str(tmp_path / "table"), form)
    open_table(spec).prepare(schema)

    def read(span):
        made = records(span).drop_columns(["hour", "value"])
        values = [None if each == 2 else {"id": each} for each in range(span.start, span.end)]
        reasons = ["the value is no JSON" if each == 2 else None for each in range(*span[2:])]
        made = made.append_column("value", pa.array(values, kind))
        made = made.append_column("badReason", pa.array(reasons, pa.string()))
        yield made.append_column("badValue", pa.array([b"oops"] * len(values), pa.binary()))

    few = OffsetRange("orders", 0, 0, 5)
    with pytest.raises(
        TidelogError, match="at offset 2 of orders-0: the value is no JSON; --on-bad"
    ):
        fill(spec, few, read=read)
    work = Work(spec, QUERY, read, 1000, skips_bad=True)
    assert list(backfill.fill(work, backfill.look(spec, QUERY, [few]))) == [(4, 1, 1)]
    (file,) = open_table(spec).files()
    with open_file(spec, file) as source:
        found = pq.read_table(source, columns=["value"])["value"].to_pylist()
    assert found == [{"id": 0}, {"id": 1}, {"id": 3}, {"id": 4}]


def test_tables_that_cannot_be_filled_are_refused(form, tmp_path):
    spec = TableSpec(str(tmp_path / "t"), form)
    with pytest.raises(TidelogError, match=f"there is no {form} table"):
        backfill.checked_schema(spec)
    with pytest.raises(TidelogError, match="a plain directory of Parquet"):
        backfill.checked_schema(spec._replace(form="parquet"))
    open_table(spec).prepare(SCHEMA)
    with pytest.raises(TidelogError, match="too many: hour, missing: none"):
        backfill.checked_schema(spec)
    buckets = TableSpec(str(tmp_path / "b"), form)
    open_table(buckets).prepare(pa.schema([("id", pa.int64()), ("tidelog_bucket", pa.int32())]))
    with pytest.raises(TidelogError, match="one row per key"):
        backfill.checked_schema(buckets)
