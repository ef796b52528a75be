"""Spark's own Kafka connector works against Tidelog, and `format("tidelog")` does what it does."""

import json

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from support.two_connectors import copy_stream, expected, rows_of, write
from tidelog.client.offsets import trim
from tidelog.client.partitioner import partition_of_key
from tidelog.spark.failure import words_of


@pytest.fixture
def topic(cluster, request, connector):
    name = request.node.originalname.removeprefix("test_").replace("_", "-")
    return cluster.topic(f"{name[:60]}-{connector}", partitions=3)


def test_a_batch_reads_everything_with_the_columns_of_the_stock_connector(side, topic):
    write(side.cluster, topic, range(30))
    frame = side.read(subscribe=topic, includeHeaders="true")
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    assert rows_of(frame) == expected(topic, range(30))
    row = frame.where("offset = 9 and partition = 2").selectExpr(
        "unix_millis(timestamp)", "headers[0].key", "headers[0].value"
    )
    assert row.collect() == [(29_000, "n", bytearray(b"29"))]


def test_a_batch_reads_between_offsets_of_partitions(side, topic):
    write(side.cluster, topic, range(30))
    frame = side.read(
        assign=json.dumps({topic: [0, 1]}),
        startingOffsets=json.dumps({topic: {"0": 4, "1": -2}}),
        endingOffsets=json.dumps({topic: {"0": -1, "1": 3}}),
    )
    wanted = [n for n in range(30) if (n % 3 == 0 and n >= 12) or (n % 3 == 1 and n < 9)]
    assert rows_of(frame) == expected(topic, wanted)


def test_a_batch_reads_from_a_time_on_all_topics_of_a_pattern(side, topic):
    write(side.cluster, topic, range(30))
    frame = side.read(
        subscribePattern=topic[:-2] + ".*",
        startingTimestamp="15000",
        endingTimestamp="24000",
    )
    assert rows_of(frame) == expected(topic, range(15, 24))


def test_a_stream_goes_on_from_its_checkpoint(side, topic, tmp_path):
    write(side.cluster, topic, range(30))
    assert copy_stream(side, topic, tmp_path) == 30
    write(side.cluster, topic, range(30, 36))
    assert copy_stream(side, topic, tmp_path) == 6
    copied = side.spark.read.parquet(str(tmp_path / "out"))
    assert rows_of(copied) == expected(topic, range(36))
    written = (tmp_path / "checkpoint" / "offsets").glob("[0-9]*")
    last = max(written, key=lambda path: int(path.name))
    assert json.loads(last.read_text().splitlines()[-1]) == {topic: {"0": 12, "1": 12, "2": 12}}


def test_a_stream_changes_its_connector_and_keeps_its_checkpoint(side, topic, tmp_path):
    other = side._replace(connector={"kafka": "tidelog", "tidelog": "kafka"}[side.connector])
    write(side.cluster, topic, range(15))
    assert copy_stream(other, topic, tmp_path) == 15
    write(side.cluster, topic, range(15, 21))
    assert copy_stream(side, topic, tmp_path) == 6
    copied = side.spark.read.parquet(str(tmp_path / "out"))
    assert rows_of(copied) == expected(topic, range(21))


def test_rows_written_have_the_partitions_of_their_keys(side, topic):
    frame = side.spark.range(30).selectExpr(
        "cast(concat('k', id) as binary) key",
        "concat('v', id) value",
        "array(struct('h' as key, cast('x' as binary) as value)) headers",
    )
    frame.write.format(side.connector).options(**side.at, topic=topic).mode("append").save()
    back = side.spark.read.format("kafka").options(
        **side.at, subscribe=topic, includeHeaders="true"
    )
    rows = back.load().selectExpr("cast(key as string)", "partition", "headers[0].key").collect()
    assert len(rows) == 30
    assert {header for _, _, header in rows} == {"h"}
    placed = {key: partition for key, partition, _ in rows}
    assert placed == {f"k{n}": partition_of_key(b"k%d" % n, 3) for n in range(30)}


def test_a_stream_is_written_once_over_a_restart(side, topic, tmp_path):
    target = side.cluster.topic(f"{topic}-target", partitions=2)

    def run():
        stream = side.stream(subscribe=topic, startingOffsets="earliest")
        query = (
            stream.select("key", "value")
            .writeStream.format(side.connector)
            .options(**side.at, topic=target, checkpointLocation=str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)

    for part in (range(12), range(12, 20)):
        write(side.cluster, topic, part)
        run()
    back = side.read(subscribe=target)
    assert sorted(rows_of(back, "value")) == sorted((bytearray(b"v%d" % n),) for n in range(20))


# ---- what both refuse ----


def refusal_of(side, **options):
    """What the connector says when Spark wants the rows, in lower case."""
    with pytest.raises((PySparkException, Py4JJavaError)) as refused:
        side.read(**options).collect()
    words = words_of(refused.value)
    assert (words is None) == (side.connector == "kafka"), refused.value
    return (words or str(refused.value)).lower()


def test_records_that_were_deleted_are_a_loss(side, topic):
    write(side.cluster, topic, range(30))
    side.cluster.ask(lambda client: trim(client, topic, 0, 5))
    options = {
        "assign": json.dumps({topic: [0]}),
        "startingOffsets": json.dumps({topic: {"0": 2}}),
    }
    assert topic in refusal_of(side, **options)
    left = side.read(**options, failOnDataLoss="false")
    assert rows_of(left) == expected(topic, range(15, 30, 3))
