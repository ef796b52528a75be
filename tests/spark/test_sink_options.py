"""Options and columns of the sink, and how rows are staged: without Spark, without brokers."""

import os
import pickle
import re
import time

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidelog.spark import staged_files, staging
from tidelog.spark.failure import InvalidOption, TidelogError
from tidelog.spark.options import Options
from tidelog.spark.outgoing_rows import OutgoingRows, together
from tidelog.spark.sink_options import (
    Application,
    check_columns,
    local_path,
    refuse_application,
    refuse_overwrite,
    sink_settings,
)
from tidelog.spark.staging import Attempt, Staging, staging_directory, sweep, this_machine
from tidelog.spark.tables.stores import Store
from tidelog.wire.kernel import scan_batches
from tidelog.wire.records import LZ4, ZSTD, Record, encode

KINDS = {
    "binary": BinaryType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "string": StringType(),
    "timestamp": TimestampType(),
    "map<string,binary>": MapType(StringType(), BinaryType()),
}


def schema_of(columns):
    """`name type, name type`, without asking a JVM."""
    pairs = [column.split(" ") for column in columns.split(", ")]
    return StructType([StructField(name, KINDS[kind]) for name, kind in pairs])


def settings(**given):
    return sink_settings(Options({"kafka.bootstrap.servers": "localhost:9092", **given}))


# ---- options


def test_a_sink_is_exactly_once_unless_told_otherwise():
    plain = settings(topic="orders")
    assert (plain.topic, plain.exactly_once, plain.sink_id) == ("orders", True, None)
    assert plain.client.transaction_timeout_ms == 300_000
    assert plain.batches.max_batch_bytes == 512 * 1024
    assert not settings(exactlyOnce="false").exactly_once


def test_known_options_of_producers_are_heeded():
    given = settings(
        **{
            "kafka.compression.type": "lz4",
            "kafka.batch.size": "2000000",
            "kafka.max.request.size": "900000",
            "kafka.transaction.timeout.ms": "5000",
            "kafka.linger.ms": "100",
            "txnAppId": "nightly",
            "txnVersion": "7",
        }
    )
    assert given.batches[:2] == (LZ4, 900_000)
    assert given.client.transaction_timeout_ms == 5000
    assert given.application == Application("nightly", 7)
    assert settings(compression="zstd").batches.codec == ZSTD
    assert pickle.loads(pickle.dumps(given)) == given


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"topics": "a"}, "there is no option topics; did you mean topic?"),
        ({"topic": " "}, "the option topic is missing"),
        ({"exactlyOnce": "maybe"}, "exactlyOnce is 'maybe'; give true or false"),
        ({"kafka.acks": "1"}, "exactly once needs the acknowledgement of all replicas"),
        ({"kafka.acks": "0", "exactlyOnce": "false"}, "nobody would know what was written"),
        ({"compression": "rar"}, "compression is 'rar'; give one of gzip, lz4, none"),
        ({"compression": "lz4", "kafka.compression.type": "zstd"}, "leave one of them out"),
        ({"sinkId": "x" * 300}, "sinkId has 300 characters"),
        ({"txnAppId": "a"}, "txnVersion is missing; give both or neither"),
        ({"txnVersion": "1"}, "txnAppId is missing; give both or neither"),
        ({"txnAppId": "a", "txnVersion": "1", "exactlyOnce": "false"}, "leave one of the two"),
        ({"kafka.transactional.id": "mine"}, "kafka.transactional.id is not supported"),
        ({"kafka.value.serializer": "X"}, "kafka.value.serializer is not supported"),
        ({"kafka.sasl.mechanism": "PLAIN"}, "say kafka.security.protocol=SASL_SSL"),
    ],
)
def test_a_wrong_option_is_named_with_what_would_be_right(given, words):
    with pytest.raises(InvalidOption, match=re.escape(words)):
        settings(**given)


def test_what_only_one_kind_of_write_can_do_is_refused_to_the_other():
    with pytest.raises(TidelogError, match="they are for batch writes"):
        refuse_application(settings(txnAppId="a", txnVersion="1"))
    with pytest.raises(TidelogError, match="never overwritten"):
        refuse_overwrite(True)


# ---- columns


def test_columns_that_make_no_record_are_left_out():
    columns = "key binary, value string, topic string, offset bigint, timestamp timestamp"
    assert check_columns(schema_of(columns), settings()) == ("key", "value", "topic", "timestamp")
    with_topic = check_columns(schema_of(columns), settings(topic="orders"))
    assert with_topic == ("key", "value", "timestamp")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("id bigint", "rows have no column value, only id; select what to write AS value"),
        ("value int", "column value is int, it must be string or binary; cast it to string"),
        ("value string, key bigint", "column key is bigint"),
        ("value string, partition bigint", "column partition is bigint, it must be int"),
        ("value string, topic binary", "column topic is binary, it must be string"),
        ("value string, timestamp bigint", "column timestamp is bigint"),
        ("value string, headers map<string,binary>", "column headers is map<string,binary>"),
    ],
)
def test_a_column_of_another_type_is_named(columns, words):
    with pytest.raises(TidelogError, match=re.escape(words)):
        check_columns(schema_of(columns), settings(topic="orders"))


def test_rows_need_a_topic_from_somewhere():
    with pytest.raises(TidelogError, match="set the option topic or add a column topic"):
        check_columns(schema_of("value string"), settings())


# ---- rows


def rows(**columns):
    return pa.record_batch(columns)


def test_rows_are_split_by_topic_and_keep_their_order():
    counts = {"a": 1, "b": 2}
    outgoing = OutgoingRows(settings(), ("value", "topic"), counts.__getitem__, 0)
    given = rows(value=["1", "2", "3", "4"], topic=["a", "b", "a", "b"], other=[0, 0, 0, 0])
    parts = list(outgoing.encoded([given], lambda: 5))
    assert [part.topic for part in parts] == ["a", "b"]
    assert list(parts[0].batches) == [0]
    total = [
        scan_batches(batch).column("record_count")[0]
        for part in parts
        for batches in part.batches.values()
        for batch in batches
    ]
    assert sum(total) == 4


def test_a_row_without_a_topic_is_told():
    outgoing = OutgoingRows(settings(), ("value", "topic"), lambda _: 1, 0)
    given = rows(value=["1", "2"], topic=["a", None])
    with pytest.raises(TidelogError, match="its column topic is null"):
        list(outgoing.encoded([given], lambda: 5))


def test_small_pieces_of_rows_are_put_together():
    pieces = [rows(value=["x"] * 10)] * 5 + [rows(value=pa.array([], pa.string()))]
    assert [each.num_rows for each in together(pieces)] == [50]


# ---- staging


def batch(value):
    return encode([Record(0, 0, None, value, ())])


def test_little_is_handed_over_in_the_message_itself(tmp_path):
    stage = Staging(Attempt("q", 3, 0), Store(str(tmp_path)))
    for partition in (0, 0, 1, 0):
        stage.add("t", partition, batch(b"%d" % partition))
    message = pickle.loads(pickle.dumps(stage.finish("run", "here")))
    assert list(tmp_path.iterdir()) == []
    assert [piece.records for piece in message.pieces] == [2, 1, 1]
    found = [scan_batches(message.read(piece)).rows for piece in message.pieces]
    assert found == [2, 1, 1]


def test_much_is_handed_over_in_a_file_that_appears_when_it_is_whole(tmp_path):
    stage = Staging(Attempt("q", 3, 0), Store(str(tmp_path / "made")))
    stage.add("t", 0, batch(b"x" * staging.INLINE_BYTES))
    stage.add("t", 1, batch(b"y"))
    assert [path.suffix for path in (tmp_path / "made").iterdir()] == [".partial"]
    message = stage.finish("run", "here")
    (path,) = (tmp_path / "made").iterdir()
    assert str(path) == message.path
    found = message.read(message.pieces[1])
    assert scan_batches(found).column("record_count")[0] == 1
    message.remove()
    message.remove()
    assert list((tmp_path / "made").iterdir()) == []


def test_a_task_that_fails_leaves_no_file(tmp_path):
    stage = Staging(Attempt("q", 3, 0), Store(str(tmp_path)))
    stage.add("t", 0, batch(b"x" * staging.INLINE_BYTES))
    stage.discard()
    assert list(tmp_path.iterdir()) == []


def test_too_much_without_a_place_names_the_option():
    stage = Staging(Attempt("q", 3, 0), None)
    with pytest.raises(TidelogError, match="set stagingDir to a directory that the driver"):
        stage.add("t", 0, batch(b"x" * staging.INLINE_BYTES_AT_MOST))


def test_a_file_that_the_driver_cannot_see_names_the_option(tmp_path):
    stage = Staging(Attempt("q", 3, 0), Store(str(tmp_path)))
    stage.add("t", 0, batch(b"x" * staging.INLINE_BYTES))
    message = stage.finish("run", "worker-7 some-boot")
    message.remove()
    with pytest.raises(TidelogError, match="staged on worker-7, cannot be read by the driver"):
        message.read(message.pieces[0])


def test_the_place_to_stage_is_shared_by_tasks_and_driver(tmp_path):
    assert staging_directory(settings(stagingDir="/shared"), "elsewhere") == Store("/shared")
    given = settings(checkpointLocation=f"file://{tmp_path}")
    assert staging_directory(given, "elsewhere") == Store(f"{tmp_path}/tidelog-staging")
    assert staging_directory(settings(), "elsewhere") is None
    assert staging_directory(settings(), this_machine()) is not None
    gone = settings(checkpointLocation=str(tmp_path / "not-here"))
    assert staging_directory(gone, "elsewhere") is None


def test_only_local_checkpoints_have_a_path():
    assert local_path("file:///data/cp") == "/data/cp"
    assert local_path("/data/cp") == "/data/cp"
    assert local_path("hdfs://name/cp") is None
    assert local_path("s3a://bucket/cp") is None


def test_files_of_decided_batches_and_very_old_ones_are_swept(tmp_path):
    for query, number in (("mine", 1), ("mine", 2), ("mine", 3), ("other", 1)):
        (tmp_path / staging.file_name(Attempt(query, number, 0))).touch()
    (tmp_path / "somebody else's").touch()
    old = tmp_path / (staging.file_name(Attempt("other", 9, 0)) + staged_files.PARTIAL)
    old.touch()
    long_ago = time.time() - staging.ORPHAN_AGE_S - 60
    os.utime(old, (long_ago, long_ago))
    sweep(Store(str(tmp_path)), "mine", 2)
    left = sorted(path.name.split(".")[1:3] for path in tmp_path.iterdir() if "." in path.name)
    assert left == [["mine", "3"], ["other", "1"]]
    sweep(Store(str(tmp_path / "not there")), "mine", 2)
