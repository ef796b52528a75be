"""Keys and values as JSON or text, with a schema of the user's."""

import pickle
import re

import pyarrow as pa
import pytest
from pyspark.sql.types import _parse_datatype_string

from tidelog.client.producer import NewRecord, Producer
from tidelog.spark.columns import record_columns
from tidelog.spark.failure import InvalidOption, TidelogError
from tidelog.spark.formats import columns_of, formatted
from tidelog.spark.options import Options
from tidelog.spark.value_format import ValueFormat

ORDER = pa.struct([("id", pa.int64()), ("tags", pa.list_(pa.string()))])


@pytest.fixture
def parse(spark):
    """Schemas as users write them: Spark itself reads them."""
    return _parse_datatype_string


def piece(values, keys=None):
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array(keys or [None] * len(values), pa.binary()),
            "value": pa.array(values, pa.binary()),
            "offset": pa.array(range(100, 100 + len(values)), pa.int64()),
        }
    )


def test_objects_become_structs_and_what_the_schema_lacks_is_left_out():
    values = [b'{"id":1,"more":{"x":1}}', b' {"tags":["a",null]}\n', None, b"null", b"{}"]
    made = ValueFormat(ORDER).made(piece(values), ("value", "offset"), "orders-0")
    assert made.schema == pa.schema([("value", ORDER), ("offset", pa.int64())])
    assert made["value"].to_pylist() == [
        {"id": 1, "tags": None},
        {"id": None, "tags": ["a", None]},
        None,
        None,
        {"id": None, "tags": None},
    ]


def test_fields_of_a_value_can_be_columns():
    format_ = pickle.loads(pickle.dumps(ValueFormat(ORDER, fields=("id", "tags"))))
    columns = ("tags", "offset", "id")
    assert format_.raw_columns(columns) == ("value", "offset")
    made = format_.made(piece([b'{"id":1}', None, b'{"id":2,"tags":[]}']), columns, "orders-0")
    assert made.to_pylist() == [
        {"tags": None, "offset": 100, "id": 1},
        {"tags": None, "offset": 101, "id": None},
        {"tags": [], "offset": 102, "id": 2},
    ]


MALFORMED = [
    b"",
    b"{",
    b"no json",
    b'{"id":1',
    b'{"id":"one"}',
    b'{"id":1.5}',
    b'{"id":1}{"id":2}',
    b'{"id":1}\n{"id":2}',
    b'{"v":2}}\n{"v":{}',
    b'"text"',
    b"[1]",
    b'{"id":99999999999999999999}',
    b"\xff\xfe",
]


@pytest.mark.parametrize("bad", MALFORMED, ids=repr)
def test_a_malformed_value_alone_is_null(bad):
    good = [b'{"id":%d}' % n for n in range(9)]
    made = ValueFormat(ORDER).made(piece([*good[:4], bad, *good[4:]]), ("value",), "orders-0")
    found = [row and row["id"] for row in made["value"].to_pylist()]
    assert found == [0, 1, 2, 3, None, 4, 5, 6, 7, 8]


def test_all_malformed_values_are_null():
    made = ValueFormat(ORDER).made(piece(MALFORMED), ("value",), "orders-0")
    assert made["value"].null_count == len(MALFORMED)


def test_failfast_names_the_record_that_is_malformed():
    values = [b'{"id":1}', b"{}", b'{"id":"x"}', b"also bad"]
    words = """the value at offset 102 of orders-0 is no JSON of the schema: '{"id":"x"}'"""
    with pytest.raises(TidelogError, match=re.escape(words)):
        ValueFormat(ORDER, fail_fast=True).made(piece(values), ("value",), "orders-0")
    keys = ValueFormat(None, pa.int64(), fail_fast=True)
    with pytest.raises(TidelogError, match=re.escape("the key at offset 101 of orders-0")):
        keys.made(piece([b"a", b"b"], [b"1", b"one"]), ("key", "value"), "orders-0")


def test_text_is_the_same_bytes_also_in_a_part_of_a_piece():
    part = piece([b"a", "ü".encode(), None, b"d"]).slice(1, 2)
    made = ValueFormat(pa.string()).made(part, ("value",), "orders-0")
    assert made["value"].to_pylist() == ["ü", None]


# ---- schemas ----


def test_a_schema_says_what_values_are(parse):
    schema = parse("value struct<id:bigint,at:timestamp,list:array<double>>, offset bigint")
    names, values = columns_of(schema, Options({"valueFormat": "json", "mode": "FAILFAST"}))
    assert names == ("value", "offset")
    assert values.fail_fast
    assert values.value == pa.struct(
        [
            ("id", pa.int64()),
            ("at", pa.timestamp("us", "UTC")),
            ("list", pa.list_(pa.float64())),
        ]
    )
    flat = columns_of(parse("id int, offset bigint, name string"), Options({"valueFormat": "json"}))
    assert flat.values.fields == ("id", "name")
    keys = columns_of(parse("key bigint, value binary"), Options({"keyFormat": "json"}))
    assert (keys.values.key, keys.values.value) == (pa.int64(), None)
    assert columns_of(parse("value binary"), Options({})) == (("value",), None)


def test_text_needs_no_schema(parse):
    options = Options({"valueFormat": "string", "keyFormat": "string"})
    schema = formatted(record_columns(headers=False), options)
    assert schema.simpleString().startswith("struct<key:string,value:string,topic:string,")
    assert columns_of(schema, options).values == ValueFormat(pa.string(), pa.string())


@pytest.mark.parametrize(
    ("schema", "options", "words"),
    [
        ("value binary", {"valueFormat": "json"}, "the schema says that value is binary"),
        ("value int", {"valueFormat": "string"}, "the schema says that value is int"),
        ("id date", {"valueFormat": "json"}, "value.id is date, which cannot be read from JSON"),
        ("value int, id int", {"valueFormat": "json"}, "the schema has a column id, and records"),
        ("offset int, id int", {"valueFormat": "json"}, "the schema says that offset is int"),
        ("key int", {"valueFormat": "json"}, "the schema says that key is int"),
        ("value int", {"valueFormat": "xml"}, "one of avro, binary, json, json-schema, protobuf"),
        ("value int", {"keyFormat": "avro"}, "one of binary, json, string"),
        ("value int", {"valueFormat": "avro"}, "the option registry is missing"),
        ("value binary", {"valueFormat": "avro"}, "the schema says that value is binary"),
        ("id int", {"valueFormat": "json", "mode": "drop"}, "one of failfast, keep, permissive"),
    ],
)
def test_schemas_that_contradict_the_format_are_refused(parse, schema, options, words):
    with pytest.raises(InvalidOption, match=re.escape(words)):
        columns_of(parse(schema), Options(options))


def test_json_without_a_schema_says_how_one_is_given():
    with pytest.raises(InvalidOption, match=re.escape('say .schema("value struct<')):
        formatted(record_columns(headers=False), Options({"valueFormat": "json"}))


def test_spark_queries_fields_of_values(spark, cluster):
    topic = cluster.topic("json", partitions=2)
    values = [b'{"id":%d,"name":"n%d"}' % (n, n) for n in range(20)]

    async def produce(client):
        await Producer(client).write(topic, [NewRecord(value) for value in [*values, b"bad"]])

    cluster.ask(produce)
    source = spark.read.format("tidelog").options(
        **{"kafka.bootstrap.servers": cluster.bootstrap_servers},
        subscribe=topic,
        valueFormat="json",
    )
    flat = source.schema("id bigint, name string, partition int").load()
    assert flat.where("id >= 18").select("id", "name").orderBy("id").collect() == [
        (18, "n18"),
        (19, "n19"),
    ]
    assert flat.where("id is null").count() == 1
    nested = source.schema("value struct<id:bigint>").load()
    assert nested.selectExpr("sum(value.id)").collect() == [(190,)]
