"""Records without headers, on their way to Python and back."""

import pyarrow as pa
from pyspark.sql.types import StructType

from tidelog.spark.columns import record_columns
from tidelog.spark.empty_headers import with_empty_headers, with_null_headers
from tidelog.wire.arrow.schema import COLUMN_TYPES

HEADERS = COLUMN_TYPES["headers"]
PAIR = {"key": "h", "value": b"x"}


def test_nulls_are_empty_lists_on_the_way_in_a_column_that_stays_as_it_was(spark):
    wanted = StructType([record_columns(headers=True)[name] for name in ("headers", "offset")])
    rows = spark.createDataFrame([([("h", b"x")], 0), (None, 1)], wanted)
    on_the_way = with_empty_headers(rows)
    assert on_the_way.schema == wanted
    assert [list(each.headers) for each in on_the_way.collect()] == [[("h", b"x")], []]
    # What the optimizer knows is what a sink gets to see.
    assert (
        "nullable = false"
        not in on_the_way._jdf.queryExecution().optimizedPlan().schema().treeString()
    )


def test_columns_that_are_not_ours_are_left_alone(spark):
    for kind in ("array<string>", "string"):
        rows = spark.createDataFrame([(None,)], f"headers {kind}")
        assert with_empty_headers(rows).collect() == [(None,)]
    rows = spark.range(1)
    assert with_empty_headers(rows) is rows


def test_empty_lists_are_null_again():
    columns = {"headers": pa.array([[PAIR], [], None, [PAIR, PAIR]], HEADERS), "offset": range(4)}
    found = with_null_headers(pa.RecordBatch.from_pydict(columns))
    wanted = pa.array([[PAIR], None, None, [PAIR, PAIR]], HEADERS)
    assert found.to_pydict() == {"headers": wanted.to_pylist(), "offset": [0, 1, 2, 3]}
    assert found["headers"].type == HEADERS
    without = pa.RecordBatch.from_pydict({"offset": [1]})
    assert with_null_headers(without) is without
