"""Values with schemas in a registry: their columns, how they are read, and how tables grow."""

import datetime as dt
import decimal
import json
import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from deltalake import DeltaTable
from google.protobuf import descriptor_pool, message_factory
from pyiceberg.catalog.sql import SqlCatalog

from support import registries
from support.pipelines import Home, quick
from support.spark_story import loaded, write_records
from tidelog.client import NewRecord
from tidelog.registry.languages.protobuf import file_of
from tidelog.registry.languages.words import AVRO, JSON, PROTOBUF, InvalidSchema, Schema
from tidelog.registry.wire_format import NotFramed, message_path, unframed
from tidelog.spark.failure import InvalidOption, TidelogError
from tidelog.spark.registry_values import RegistryValues, client_of, type_of_subjects
from tidelog.spark.schema_types import fit_for, grown, joined, missing_in
from tidelog.spark.value_languages import Unreadable, WriterSchema

WITHIN_SECONDS = 120
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
WITH_NOTE = {**ORDER, "fields": [*ORDER["fields"], NOTE]}
ONLY_NOTE = {**ORDER, "fields": [NOTE]}


def nothing(reference):
    raise InvalidSchema(reference.name)


def written(kind, schema):
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return WriterSchema(Schema(kind, text), nothing)


# ---- without a cluster


def test_avro_has_columns_for_what_tables_know():
    fields = [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "time", "type": {"type": "int", "logicalType": "time-millis"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "more", "type": {"type": "map", "values": ["null", "long"]}},
        {"name": "colour", "type": {"type": "enum", "name": "C", "symbols": ["RED"]}},
        {"name": "number", "type": ["null", "int", "long"]},
    ]
    found = written(AVRO, {**ORDER, "fields": fields}).type
    assert found == pa.struct(
        [
            ("at", pa.timestamp("us", "UTC")),
            ("day", pa.date32()),
            ("time", pa.int32()),
            ("price", pa.decimal128(9, 2)),
            ("tags", pa.list_(pa.string())),
            ("more", pa.map_(pa.string(), pa.int64())),
            ("colour", pa.string()),
            ("number", pa.int64()),
        ]
    )
    assert written(AVRO, '"long"').type == pa.struct([("value", pa.int64())])
    itself = {**ORDER, "fields": [{"name": "next", "type": ["null", "Order"]}]}
    for wrong in (itself, {**ORDER, "fields": [{"name": "x", "type": ["int", "string"]}]}):
        with pytest.raises(InvalidSchema):
            written(AVRO, wrong)


def test_protobuf_has_columns_for_what_tables_know():
    text = """
    syntax = "proto3"; import "google/protobuf/timestamp.proto";
    import "google/protobuf/wrappers.proto";
    enum Colour { RED = 0; }
    message Order {
      uint64 big = 1; bytes raw = 2; repeated string tags = 3; map<string, int32> more = 4;
      Colour colour = 5; google.protobuf.Timestamp at = 6; google.protobuf.Int64Value n = 7;
      message Item { optional int32 count = 1; } repeated Item items = 8; Empty none = 9;
    }
    message Empty {}
    """
    schema = written(PROTOBUF, text)
    kinds = {each.name: each.type for each in schema.type}
    assert kinds["big"] == pa.decimal128(20, 0)
    assert kinds["more"] == pa.map_(pa.string(), pa.int32())
    assert kinds["at"] == pa.timestamp("us", "UTC")
    assert kinds["n"] == pa.int64()
    assert "none" not in kinds
    pool = descriptor_pool.DescriptorPool()
    for name in ("timestamp", "wrappers"):
        file = descriptor_pool.Default().FindFileByName(f"google/protobuf/{name}.proto")
        pool.AddSerializedFile(file.serialized_pb)
    pool.Add(file_of(text, "x.proto", ()))
    order = message_factory.GetMessageClass(pool.FindMessageTypeByName("Order"))(
        big=2**64 - 1, tags=["a"], more={"x": 1}, items=[{"count": 3}, {}], at={"seconds": 7}
    )
    made = fit_for(schema.type)(schema.decode(b"\0" + order.SerializeToString()))
    row = pa.array([made], schema.type).to_pylist()[0]
    assert row["big"] == decimal.Decimal(2**64 - 1)
    assert row["items"] == [{"count": 3}, {"count": None}]
    assert row["more"] == [("x", 1)]
    assert row["at"] == dt.datetime(1970, 1, 1, 0, 0, 7, tzinfo=dt.UTC)
    assert (row["colour"], row["n"]) == ("RED", None)
    for wrong, told in ((b"\2\2", "columns are of"), (b"\2\x0e", "no message"), (b"", "message")):
        with pytest.raises(Unreadable, match=told):
            schema.decode(wrong)


def test_json_schemas_have_columns_and_what_they_leave_open_is_text():
    schema = written(
        JSON,
        {
            "type": "object",
            "properties": {
                "id": {"type": "integer"},
                "price": {"type": ["number", "null"]},
                "tags": {"type": "array", "items": {"type": "string"}},
                "more": {"type": "object", "additionalProperties": {"type": "integer"}},
                "any": {},
                "ref": {"$ref": "#/$defs/x"},
            },
            "$defs": {"x": {"type": "boolean"}},
        },
    )
    value = {"id": 7.0, "price": 1, "more": {"a": 1}, "any": {"b": [1]}, "other": 1}
    made = fit_for(schema.type)(schema.decode(json.dumps(value).encode()))
    assert pa.array([made], schema.type).to_pylist() == [
        {"id": 7, "price": 1.0, "tags": None, "more": [("a", 1)], "any": '{"b": [1]}', "ref": None}
    ]


def test_types_are_joined_over_versions_and_grow_in_tables():
    first = pa.struct([("id", pa.int32()), ("gone", pa.string())])
    second = pa.struct([("id", pa.int64()), ("in", pa.struct([("x", pa.bool_())]))])
    both = joined(first, second, "value")
    assert both == pa.struct([("id", pa.int64()), ("gone", pa.string()), second.field("in")])
    assert missing_in(first, second, "value") == ["value.id (int64)", "value.in"]
    assert missing_in(both, second, "value") == []
    with pytest.raises(TidelogError, match=r"value\.id is int32 in one schema and string in"):
        joined(first, pa.struct([("id", pa.string())]), "value")
    with pytest.raises(TidelogError, match=r"value\.id is int32 there and int64 now"):
        grown(first, second, "lake")
    large = pa.struct([("id", pa.int64()), ("gone", pa.large_string())])
    assert grown(large, second, "lake") == both


def test_frames_are_read_by_their_bytes():
    assert unframed(b"\0\0\0\1\2body") == (258, b"body")
    assert message_path(b"\0x") == ((0,), b"x")
    assert message_path(b"\4\2\0x") == ((1, 0), b"x")
    for wrong in (b"", b"\1\0\0\0\1", b"\0\0\0"):
        with pytest.raises(NotFramed):
            unframed(wrong)
    for wrong in (b"", b"\4\2", b"\1", b"\x80" * 12):
        with pytest.raises(NotFramed):
            message_path(wrong)


def test_a_registry_that_is_not_there_is_named():
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://user:secret@127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(TidelogError, match="cannot be reached") as told:
            type_of_subjects(url, "avro", ["x"])
    assert "secret" not in str(told.value)
    with pytest.raises(InvalidOption, match="is not http"):
        client_of("host:8081")


# ---- with a cluster, a registry and Spark


@pytest.fixture(scope="module")
def registry(cluster):
    with registries.running(cluster.bootstrap_servers) as running:
        yield running


@pytest.fixture
def home(tmp_path, spark):
    with quick(spark):
        yield Home(tmp_path / "pipelines")


def framed(registry, topic, make, values):
    """As serializers of Confluent write them."""
    with SchemaRegistryClient({"url": registry.url}) as client:
        write = make(client)
        context = SerializationContext(topic, MessageField.VALUE)
        return [NewRecord(write(each, context)) for each in values]


def avro(registry, topic, schema, values):
    return framed(registry, topic, lambda it: AvroSerializer(it, json.dumps(schema)), values)


def archived(home, cluster, registry, topic, spec, *more):
    given = ["archive", topic, "--to", spec[0], "--format", spec[1]]
    given += ["-b", cluster.bootstrap_servers, "--registry", registry.url]
    return home.run(*given, *more)


def iceberg_rows(path):
    catalog = SqlCatalog("tidelog", uri=f"sqlite:///{path}/catalog.db", warehouse=path)
    try:
        return catalog.load_table(("tidelog", "records")).scan().to_arrow().to_pylist()
    finally:
        catalog.engine.dispose()


def delta_rows(path):
    return DeltaTable(path).to_pyarrow_table().to_pylist()


def test_an_iceberg_table_grows_when_its_pipeline_starts(home, cluster, registry, tmp_path):
    topic = cluster.topic("avro-iceberg")
    spec = (str(tmp_path / "lake"), "iceberg")
    registry.ask("PUT", f"/config/{topic}-value", {"compatibility": "NONE"})
    write_records(cluster, topic, avro(registry, topic, ORDER, [{"id": 1}]))
    write_records(cluster, topic, [NewRecord(b"no frame"), NewRecord(b"\0\0\0\xff\0x")])
    avro_format = ("--value-format", "avro", "--on-bad-record", "dead-letter")
    first = archived(home, cluster, registry, topic, spec, "--once", *avro_format)
    assert "3 in, 1 out, 2 dead letters" in first.stdout, first.stderr
    write_records(cluster, topic, avro(registry, topic, WITH_NOTE, [{"id": 2, "note": "x"}]))
    write_records(cluster, topic, avro(registry, topic, ONLY_NOTE, [{"note": "y"}]))
    second = archived(home, cluster, registry, topic, spec, "--once", *avro_format)
    assert " · 2 in, 2 out · " in second.stdout, second.stderr
    found = sorted(
        (each["value"]["id"] or 9, each["value"]["note"]) for each in iceberg_rows(spec[0])
    )
    assert found == [(1, None), (2, "x"), (9, "y")]
    text = {**ORDER, "fields": [{"name": "id", "type": "string"}]}
    registry.register(f"{topic}-value", text)
    refused = archived(home, cluster, registry, topic, spec, "--once", *avro_format)
    assert refused.code == 1
    assert "value.id is int32 in one schema and string in another" in refused.stderr


def test_a_delta_table_grows_while_its_pipeline_runs(home, cluster, registry, tmp_path):
    topic = cluster.topic("avro-delta")
    spec = (str(tmp_path / "lake"), "delta")
    write_records(cluster, topic, avro(registry, topic, ORDER, [{"id": 1}]))

    def meanwhile():
        """A newer schema comes when the first batch is done; then the pipeline is stopped."""
        try:
            cluster.wait(lambda: rows_in(spec[0]) == 1, WITHIN_SECONDS)
            later = avro(registry, topic, WITH_NOTE, [{"id": 2, "note": "x"}])
            write_records(cluster, topic, later)
            cluster.wait(lambda: rows_in(spec[0]) == 2, WITHIN_SECONDS)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    # A run that has failed already no longer listens, and the signal must not end the tests.
    before = signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        with ThreadPoolExecutor(1) as pool:
            story = pool.submit(meanwhile)
            ran = archived(home, cluster, registry, topic, spec, "--value-format", "avro")
            story.result()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ran.code == 130, ran.stderr
    assert "no columns for yet: value.note: starting the query again" in ran.stderr
    found = sorted((each["value"]["id"], each["value"]["note"]) for each in delta_rows(spec[0]))
    assert found == [(1, None), (2, "x")]


@pytest.mark.long
def test_a_backfill_decodes_values_into_the_columns_that_the_table_has(
    home, cluster, registry, tmp_path
):
    topic = cluster.topic("avro-backfilled")
    spec = (str(tmp_path / "lake"), "delta")
    write_records(cluster, topic, avro(registry, topic, ORDER, [{"id": 1}, {"id": 2}]))
    write_records(cluster, topic, avro(registry, topic, WITH_NOTE, [{"id": 3, "note": "x"}]))
    named = ["--value-format", "avro", "--name", "avro", "--once"]
    assert archived(home, cluster, registry, topic, spec, *named).code == 0
    before = delta_rows(spec[0])
    DeltaTable(spec[0]).delete("offset > 0")
    given = ["-b", cluster.bootstrap_servers, "--registry", registry.url]
    told = home.done("backfill", "avro", *given, "-o", "json").stdout.splitlines()[-1]
    assert json.loads(told) == {"added": 2, "skipped": 0, "commits": 1}
    assert sorted(delta_rows(spec[0]), key=lambda each: each["offset"]) == before


def rows_in(path):
    return DeltaTable(path).to_pyarrow_table().num_rows if DeltaTable.is_deltatable(path) else 0


PROTO = 'syntax = "proto3"; package lake; message Line { string text = 1; repeated int32 n = 2; }'


def test_protobuf_and_json_values_become_columns(home, cluster, registry, tmp_path):
    pool = descriptor_pool.Default()
    pool.Add(file_of(PROTO, "registry_values_test.proto", ()))
    line = message_factory.GetMessageClass(pool.FindMessageTypeByName("lake.Line"))
    settings = {"use.deprecated.format": False}
    proto = framed(
        registry,
        cluster.topic("lines"),
        lambda it: ProtobufSerializer(line, it, settings),
        [line(text="a", n=[1, 2])],
    )
    write_records(cluster, "lines", proto)
    schema = {"title": "T", "type": "object", "properties": {"id": {"type": "integer"}}}
    documents = framed(
        registry,
        cluster.topic("documents"),
        lambda it: JSONSerializer(json.dumps(schema), it),
        [{"id": 7}],
    )
    write_records(cluster, "documents", documents)
    for topic, form, value in (
        ("lines", "protobuf", {"text": "a", "n": [1, 2]}),
        ("documents", "json-schema", {"id": 7}),
    ):
        spec = (str(tmp_path / topic), "delta")
        ran = archived(home, cluster, registry, topic, spec, "--once", "--value-format", form)
        assert ran.code == 0, ran.stderr
        assert [each["value"] for each in delta_rows(spec[0])] == [value]


def test_spark_reads_values_by_the_schemas_of_their_subject(spark, cluster, registry):
    topic = cluster.topic("avro-batch")
    write_records(cluster, topic, avro(registry, topic, ORDER, [{"id": 3}, {"id": 4}]))
    options = {"valueFormat": "avro", "registry": registry.url, "subscribe": topic}
    frame = loaded(spark, cluster, **options)
    assert frame.schema["value"].dataType.simpleString() == "struct<id:int>"
    assert frame.selectExpr("sum(value.id)").collect() == [(7,)]


def test_a_schema_of_ones_own_may_name_fewer_fields(spark, cluster, registry):
    topic = cluster.topic("avro-fewer")
    write_records(cluster, topic, avro(registry, topic, ORDER, [{"id": 3}]))
    write_records(cluster, topic, avro(registry, topic, WITH_NOTE, [{"id": 4, "note": "new"}]))
    frame = (
        spark.read.format("tidelog")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .options(subscribe=topic, valueFormat="avro", registry=registry.url, newFields="ignore")
        .schema("value struct<id:int>")
        .load()
    )
    assert sorted(frame.select("value.id").collect()) == [(3,), (4,)]


def test_a_schema_that_is_newer_than_the_plan_is_noticed(registry):
    registry.ask("PUT", "/config/grown-value", {"compatibility": "NONE"})
    context = SerializationContext("grown", MessageField.VALUE)
    with SchemaRegistryClient({"url": registry.url}) as client:
        old = AvroSerializer(client, json.dumps(ORDER))({"id": 1}, context)
        new = AvroSerializer(client, json.dumps(WITH_NOTE))({"id": 2, "note": None}, context)
    kind = written(AVRO, ORDER).type
    values = RegistryValues(registry.url, "avro")
    bad = {}
    found = values.decoded(pa.array([old, None, b"x", old + b"x"], pa.binary()), kind, bad)
    assert found.to_pylist() == [{"id": 1}, None, None, None]
    assert sorted(bad) == [2, 3]
    assert "1 bytes follow it" in bad[3]
    with pytest.raises(TidelogError, match=r"no columns for yet: value\.note"):
        values.decoded(pa.array([new], pa.binary()), kind, bad)
    left_out = values._replace(ignores_new_fields=True)
    assert left_out.decoded(pa.array([old, new], pa.binary()), kind, {}).to_pylist() == [
        {"id": 1},
        {"id": 2},
    ]


def test_a_field_of_another_type_is_no_new_field():
    kind = pa.struct([("id", pa.int64()), ("place", pa.list_(pa.struct([("x", pa.int64())])))])
    more = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    wanted = pa.struct([("id", pa.string()), ("place", pa.list_(more)), ("note", pa.string())])
    assert missing_in(kind, wanted, "v") == ["v.id (string)", "v.place[].y", "v.note"]
    assert missing_in(kind, wanted, "v", new_fields=False) == ["v.id (string)"]


def test_a_value_that_is_not_of_its_schema_does_not_spoil_its_neighbours(registry):
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    made = registry.register("spoilt", schema, "JSON").document["id"]
    head = b"\0" + made.to_bytes(4, "big")
    texts = (b'{"id": 1}', b'{"id": "one"}', b"{", b"[]", b'{"id": 2}', b'{"id": true}')
    pieces = pa.array([head + each for each in texts], pa.binary())
    bad = {}
    values = RegistryValues(registry.url, "json-schema")
    found = values.decoded(pieces, written(JSON, schema).type, bad)
    assert found.to_pylist() == [{"id": 1}, None, None, None, {"id": 2}, None]
    assert sorted(bad) == [1, 2, 3, 5]
    assert bad[1].startswith(f"the value is not of its schema {made}: ")


def test_a_subject_that_is_not_there_is_told_before_spark_starts(home, cluster, registry, tmp_path):
    cluster.topic("no-schemas")
    spec = (str(tmp_path / "lake"), "delta")
    ran = archived(home, cluster, registry, "no-schemas", spec, "--value-format", "avro")
    assert ran.code == 1
    assert "there is no subject 'no-schemas-value'" in ran.stderr
    wrong = archived(home, cluster, registry, "no-schemas", spec)
    assert wrong.code == 2
    assert "belong together" in wrong.stderr
