"""Streams into tables: whatever fails, and however often a batch comes again, rows are exact."""

import datetime as dt
import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException

from tidelog.spark.failure import TidelogError
from tidelog.spark.table_sink import TableDataSource, TableWriter, sink_options, spec_of
from tidelog.spark.tables.files import write_files
from tidelog.spark.tables.forms import open_table, read_table
from tidelog.spark.tables.layouts import layout_of
from tidelog.spark.tables.store_options import StoreOptions
from tidelog.spark.tables.words import FORMS, BatchFiles, BatchId, CatalogTable, TableSpec

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("topic", pa.string()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("date", pa.date32()),
    ]
)
MIDNIGHT = dt.datetime(2026, 11, 16, tzinfo=dt.UTC)


def rows(first, end):
    """One an hour, so that two days and both topics are among them."""
    times = [MIDNIGHT + dt.timedelta(hours=each) for each in range(first, end)]
    return pa.RecordBatch.from_pylist(
        [
            {
                "key": None if each % 3 else b"k",
                "topic": ["orders", "payments"][each % 2],
                "offset": each,
                "timestamp": time,
                "headers": [{"key": "h", "value": None}] if each % 5 else None,
                "date": time.date(),
            }
            for each, time in zip(range(first, end), times, strict=True)
        ],
        schema=SCHEMA,
    )


def write(spec, batch, *batches):
    """As one attempt of a task does, and the driver after it."""
    files = write_files(layout_of(spec, batch), SCHEMA, "part", batches)
    return open_table(spec).commit(SCHEMA, BatchFiles(batch, files))


@pytest.fixture(params=FORMS)
def form(request):
    return request.param


@pytest.mark.parametrize("columns", [(), ("topic", "date")], ids=["flat", "partitioned"])
def test_a_batch_that_comes_again_is_left_out(form, columns, tmp_path, spark):
    spec = TableSpec(str(tmp_path / "table"), form, columns)
    open_table(spec).prepare(SCHEMA)
    assert write(spec, BatchId("q", 0), rows(0, 30))
    assert not write(spec, BatchId("q", 0), rows(0, 10), rows(10, 30))
    assert write(spec, BatchId("q", 1), rows(30, 48))
    assert not write(spec, BatchId("q", 1), rows(30, 48))
    found = read_table(spark, spec).orderBy("offset").collect()
    assert [each.offset for each in found] == list(range(48))
    assert [each.topic for each in found[:2]] == ["orders", "payments"]
    assert {each.date for each in found} == {MIDNIGHT.date(), dt.date(2026, 11, 17)}
    assert found[1].headers == [("h", None)]
    assert found[5].headers is None


def test_the_first_batch_of_another_query_is_not_taken_for_a_repeated_one(form, tmp_path):
    spec = TableSpec(str(tmp_path / "table"), form)
    assert write(spec, BatchId("first", 0), rows(0, 3))
    assert write(spec, BatchId("second", 0), rows(3, 5))
    assert len(open_table(spec).active_files()) == 2


def test_files_that_nobody_committed_are_not_in_the_table(form, tmp_path, spark):
    spec = TableSpec(str(tmp_path / "table"), form)
    batch = BatchId("q", 0)
    write_files(layout_of(spec, batch), SCHEMA, "part", [rows(0, 7)])
    assert write(spec, batch, rows(0, 7))
    assert read_table(spark, spec).count() == 7


def test_a_parquet_batch_that_was_decided_and_not_moved_is_moved_when_it_comes_again(
    tmp_path, spark
):
    spec, batch = TableSpec(str(tmp_path / "table"), "parquet"), BatchId("q", 0)
    open_table(spec).prepare(SCHEMA)
    (file,) = write_files(layout_of(spec, batch), SCHEMA, "part", [rows(0, 7)])
    decided = {"query": "q", "batch": 0, "files": [file.name]}
    (tmp_path / "table/_tidelog/q.manifest.json").write_text(json.dumps(decided))
    assert open_table(spec).is_empty()
    assert not write(spec, batch, rows(0, 7))
    assert spark.read.parquet(spec.path).count() == 7


def test_a_table_of_another_shape_is_refused(form, tmp_path):
    spec = TableSpec(str(tmp_path / "table"), form, ("topic",))
    open_table(spec).prepare(SCHEMA)
    open_table(spec).prepare(SCHEMA)
    with pytest.raises(TidelogError, match="is partitioned by topic, not by date"):
        open_table(spec._replace(partition_by=("date",))).prepare(SCHEMA)
    with pytest.raises(TidelogError, match=r"not written: key.*not in the table: note"):
        open_table(spec).prepare(SCHEMA.remove(0).append(pa.field("note", pa.string())))


def test_files_can_be_left_out_by_offset_and_time(tmp_path):
    spec = TableSpec(str(tmp_path / "table"), "delta")
    write(spec, BatchId("q", 0), rows(0, 24))
    write(spec, BatchId("q", 1), rows(24, 48))
    actions = pa.table(DeltaTable(spec.path).get_add_actions(flatten=True))
    bounds = actions.select(["min.offset", "max.offset", "num_records"]).to_pylist()
    assert sorted(tuple(each.values()) for each in bounds) == [(0, 23, 24), (24, 47, 24)]
    assert max(actions["max.timestamp"].to_pylist()) == MIDNIGHT + dt.timedelta(hours=47)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "the option path is missing"),
        ({"path": "hdfs://name/t"}, "there are no tables at hdfs://"),
        ({"path": "t", "tableformat": "orc"}, "delta, iceberg, parquet"),
        ({"path": "t", "tabelformat": "delta"}, "did you mean tableFormat"),
    ],
)
def test_wrong_options_are_told(options, words):
    with pytest.raises(TidelogError, match=words):
        spec_of(options)


def failing_source(flag):
    """The sink, but its first commit fails when the table has already taken the batch."""

    class Failing(TableWriter):
        def commit(self, messages, batchId):  # noqa: N803 - Spark passes it by name
            super().commit(messages, batchId)
            if not flag.exists():
                flag.touch()
                raise RuntimeError("after the table has it")

    class FailingSource(TableDataSource):
        @classmethod
        def name(cls):
            return "failing_table"

        def streamWriter(self, schema, overwrite):  # noqa: N802
            return Failing(spec_of(self.options), schema)

    return FailingSource


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_query_that_fails_after_its_commit_leaves_exact_rows(form, tmp_path, spark):
    spark.dataSource.register(failing_source(tmp_path / "failed-once"))
    spec = TableSpec(str(tmp_path / "table"), form)

    def run():
        stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 50)
        writer = stream.option("numPartitions", 2).load().writeStream.format("failing_table")
        writer = writer.option("path", spec.path).option("tableFormat", form)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination(60)

    with pytest.raises(StreamingQueryException, match="after the table has it"):
        run()
    once = len(open_table(spec).active_files())
    assert once
    run()
    found = sorted(each.value for each in read_table(spark, spec).collect())
    assert found == list(range(len(found))), "each value is there exactly once"
    assert len(found) % 50 == 0


def test_options_of_the_sink_make_the_same_table_and_show_no_secret():
    catalog = CatalogTable("postgresql://shop:very-secret@db/lake", "a.b", (("token", "secret-2"),))
    options = StoreOptions((("AWS_ACCESS_KEY_ID", "secret-3"), ("AWS_REGION", "eu-west-1")))
    spec = TableSpec("s3://lake/orders", "iceberg", ("date",), options, catalog)
    told = sink_options(spec)
    with pytest.MonkeyPatch.context() as environment:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_REGION"):
            environment.delenv(name, raising=False)
        assert spec_of(told) == spec
    shown = {name: text for name, text in told.items() if not name.endswith("Secrets")}
    assert "secret" not in str(shown)
