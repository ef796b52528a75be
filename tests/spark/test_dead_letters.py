"""Records that cannot be decoded: kept apart exactly once, counted, and sent back."""

import datetime as dt

import pyarrow as pa
import pytest
from pyspark.sql.types import _parse_datatype_string

from support.pipelines import Home, quick
from support.spark_story import write_records
from tidelog.client import Consumer, NewRecord
from tidelog.client.offsets import EARLIEST, LATEST, READ_COMMITTED, find_offsets
from tidelog.spark import table_sink
from tidelog.spark.dead_letters import letters_of
from tidelog.spark.pipelines.dead_letter_topics import reason_filter
from tidelog.spark.pipelines.topics import BAD_COLUMNS
from tidelog.spark.tables.forms import open_table, read_table
from tidelog.spark.tables.words import BatchId, TableSpec

TIME_MS = 1_714_979_289_123
PREFIX = "tidelog.dead-letter."


@pytest.fixture
def home(tmp_path, spark):
    with quick(spark):
        yield Home(tmp_path / "pipelines")


def records(cluster, topic):
    """Committed ones, partition by partition."""

    async def read(client):
        count = len((await client.topic(topic)).partitions)
        places = [(topic, each) for each in range(count)]
        first = await find_offsets(client, dict.fromkeys(places, EARLIEST))
        ends = await find_offsets(client, dict.fromkeys(places, LATEST), isolation=READ_COMMITTED)
        consumer = Consumer(client, {each: first[each].offset for each in places}, committed=True)
        found = []
        while any(consumer.positions[each] < ends[each].offset for each in places):
            for fetched in (await consumer.read()).values():
                found += [(read.partition, read.record) for read in fetched.reads]
        return sorted(found, key=lambda each: (each[0], each[1].offset))

    return cluster.ask(read)


def fill(cluster, topic):
    """Two good and three bad records, in two partitions."""
    values = {0: (b'{"id":1}', b"bad one", b'{"id":2}'), 1: (b'{"id":"x"}', b"bad two")}
    for partition, written in values.items():
        write_records(
            cluster,
            topic,
            [NewRecord(each, b"k", (("h", b"1"),), TIME_MS, partition) for each in written],
        )


def test_bad_records_go_to_a_topic_of_their_own_and_back_again(home, cluster, spark, tmp_path):
    topic = cluster.topic("letters", partitions=2)
    fill(cluster, topic)
    spec = TableSpec(str(tmp_path / "lake"), "delta")
    given = ["archive", topic, "--to", spec.path, "--once", "-b", cluster.bootstrap_servers]
    given += ["--value-format", "json", "--schema", "id BIGINT"]
    stopped = home.run(*given)
    assert "is no JSON of the schema" in stopped.stderr
    line = home.done(*given, "--on-bad-record", "dead-letter").stdout
    assert " · 5 in, 2 out, 3 dead letters · committed · " in line
    assert home.status("archive-letters")["progress"]["dead_letters_total"] == 3
    found = read_table(spark, spec).select("value.id", "partition").orderBy("id").collect()
    assert found == [(1, 0), (2, 0)]
    letters = records(cluster, "letters.dead-letters")
    assert [(where, each.value) for where, each in letters] == [
        (0, b"bad one"),
        (1, b'{"id":"x"}'),
        (1, b"bad two"),
    ]
    assert letters[1][1].key == b"k"
    assert letters[1][1].headers == (
        ("h", b"1"),
        (PREFIX + "reason", b"the value is no JSON of the schema"),
        (PREFIX + "topic", b"letters"),
        (PREFIX + "partition", b"1"),
        (PREFIX + "offset", b"0"),
        (PREFIX + "timestamp", str(TIME_MS).encode()),
        (PREFIX + "pipeline", home.status("archive-letters")["name"].encode()),
    )
    sent_back(home, cluster)


def sent_back(home, cluster):
    """To another topic, so that it can be seen what came there."""
    cluster.topic("mended", partitions=2)
    write_records(cluster, "letters.dead-letters", [NewRecord(b"stranger", partition=0)])
    given = ["replay-dead-letters", "letters.dead-letters", "--to", "mended"]
    given += ["-b", cluster.bootstrap_servers, "-o", "json"]
    dry = run(home, *given, "--dry-run").document
    assert (dry["sent"], dry["kept"], dry["no_dead_letters"]) == (3, 0, 1)
    none = run(home, *given, "--where", "reason~another").document
    assert (none["sent"], none["kept"]) == (0, 3)
    all_of_them = run(home, *given, "--where", "reason~no JSON").document
    assert all_of_them["reasons"] == {"the value is no JSON of the schema": 3}
    assert run(home, *given).document["sent"] == 0
    back = records(cluster, "mended")
    assert [(where, each.value) for where, each in back] == [
        (0, b"bad one"),
        (1, b'{"id":"x"}'),
        (1, b"bad two"),
    ]
    assert {each.headers for _, each in back} == {(("h", b"1"),)}
    assert {each.timestamp for _, each in back} == {TIME_MS}


def run(home, *arguments):
    """Commands that keep nothing have no --state-dir."""
    from click.testing import CliRunner

    from support.commands import Ran
    from tidelog.cli.main import cli

    result = CliRunner().invoke(cli, ["pipeline", *arguments])
    assert result.exit_code == 0, result.stderr
    return Ran(result.exit_code, result.stdout, result.stderr)


def test_bad_records_can_be_skipped_and_are_counted(home, cluster, spark, tmp_path):
    topic = cluster.topic("skipping", partitions=2)
    fill(cluster, topic)
    spec = TableSpec(str(tmp_path / "lake"), "iceberg")
    given = ["archive", topic, "--to", spec.path, "--once", "-b", cluster.bootstrap_servers]
    given += ["--format", "iceberg", "--value-format", "json", "--schema", "id BIGINT"]
    (batch,) = home.batches(*given, "--on-bad-record", "skip")
    assert (batch["rows_in"], batch["rows_out"], batch["skipped"]) == (5, 2, 3)
    assert read_table(spark, spec).count() == 2


SCHEMA = f"value STRUCT<id: BIGINT>, key BINARY, topic STRING, partition INT, offset BIGINT, \
timestamp TIMESTAMP, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, {BAD_COLUMNS}"


def test_letters_are_written_once_though_their_batch_is_tried_again(
    cluster, spark, tmp_path, monkeypatch
):
    """The driver dies when the letters are written and the table is not."""
    cluster.topic("tried.dead-letters")
    spec = TableSpec(str(tmp_path / "lake"), "delta")
    letters = letters_of(
        {"kafka.bootstrap.servers": cluster.bootstrap_servers, "queryName": "archive-tried"}
    )
    schema = _parse_datatype_string(SCHEMA)
    rows = pa.RecordBatch.from_pylist(
        [row(0, {"id": 1}), row(1, None, "the value is bad", b"bad")],
        schema=pa.schema([(each, KINDS[each]) for each in schema.names]),
    )

    def attempt():
        writer = table_sink.TableWriter(spec, schema, letters)
        message = writer._without_bad(BatchId("tried-query", 0), 0, iter([rows]), "run")
        writer.commit([message], 0)

    def dies(spec):
        raise OSError("the driver died")

    with monkeypatch.context() as patched:
        patched.setattr(table_sink, "open_table", dies)
        with pytest.raises(OSError, match="the driver died"):
            attempt()
    assert not open_table(spec).exists()
    attempt()
    assert [each.value for _, each in records(cluster, "tried.dead-letters")] == [b"bad"]
    assert read_table(spark, spec).count() == 1


def row(offset, value, reason=None, raw=None):
    return {
        "value": value,
        "key": None,
        "topic": "tried",
        "partition": 3,
        "offset": offset,
        "timestamp": dt.datetime(2026, 11, 16, tzinfo=dt.UTC),
        "headers": None,
        "badReason": reason,
        "badValue": raw,
    }


KINDS = {
    "value": pa.struct([("id", pa.int64())]),
    "key": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    "badReason": pa.string(),
    "badValue": pa.binary(),
}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--on-bad-record", "skip"], "so none is bad"),
        (["--dead-letter-topic", "x"], "--on-bad-record is stop"),
    ],
)
def test_options_that_make_no_sense_are_refused(home, tmp_path, options, words):
    ran = home.run("archive", "any", "--to", str(tmp_path), "-b", "127.0.0.1:1", *options)
    assert ran.code == 2
    assert words in ran.stderr


def test_a_filter_is_an_expression_over_reasons():
    assert reason_filter("reason~^the value")("the value is bad")
    assert not reason_filter("reason~key")("the value is bad")
    for wrong in ("value~x", "reason", "reason~("):
        with pytest.raises(ValueError, match=r"regular expression|reason~"):
            reason_filter(wrong)
