"""Batches over topics, with a real Spark and a real cluster."""

import json

import pytest

from support.spark_story import loaded, refused, values_of, write, write_records
from tidelog.client import NewRecord
from tidelog.client.offsets import trim
from tidelog.client.transactional_producer import TransactionalProducer

BRIEF = {
    "fetchOffset__numRetries": "0",
    "kafka__default__api__timeout__ms": "1000",
}


def test_a_topic_is_read_whole_with_the_columns_of_the_stock_connector(spark, cluster):
    topic = cluster.topic("whole", partitions=3)
    for partition in range(3):
        write(cluster, topic, range(partition * 100, partition * 100 + 50), partition=partition)
    frame = loaded(spark, cluster, subscribe=topic)
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int>"
    )
    rows = frame.collect()
    assert len(rows) == 150
    places = {(row["topic"], row["partition"], row["offset"]): int(row["value"]) for row in rows}
    assert places == {
        (topic, partition, offset): partition * 100 + offset
        for partition in range(3)
        for offset in range(50)
    }


def test_a_partition_is_a_task_unless_more_or_fewer_are_asked_for(spark, cluster):
    topic = cluster.topic("tasks", partitions=8)
    for partition in range(8):
        write(cluster, topic, range(5), partition=partition)
    assert loaded(spark, cluster, subscribe=topic).rdd.getNumPartitions() == 8
    packed = loaded(spark, cluster, subscribe=topic, packPartitions="true")
    assert packed.rdd.getNumPartitions() == 1
    split = loaded(spark, cluster, subscribe=topic, minPartitions="12", schema="value binary")
    assert split.rdd.getNumPartitions() == 16
    assert values_of(split) == sorted(list(range(5)) * 8)


def test_headers_come_when_asked_for_and_keep_their_nulls(spark, cluster):
    topic = cluster.topic("headed")
    headers = (("trace", b"\x01"), ("trace", None))
    write_records(cluster, topic, [NewRecord(b"v", None, headers), NewRecord(None, b"k")])
    rows = (
        loaded(spark, cluster, subscribe=topic, includeHeaders="true").orderBy("offset").collect()
    )
    assert [tuple(each) for each in rows[0]["headers"]] == [("trace", b"\x01"), ("trace", None)]
    assert (rows[0]["key"], rows[0]["value"]) == (None, b"v")
    assert (rows[1]["key"], rows[1]["value"], rows[1]["headers"]) == (b"k", None, None)


def test_a_schema_with_fewer_columns_reads_only_those(spark, cluster):
    topic = cluster.topic("narrow")
    write(cluster, topic, range(4))
    frame = loaded(spark, cluster, subscribe=topic, schema="offset bigint, partition int")
    assert sorted(map(tuple, frame.collect())) == [(offset, 0) for offset in range(4)]


def test_part_of_a_topic_by_offsets_and_by_time(spark, cluster):
    topic = cluster.topic("part", partitions=2)
    write(cluster, topic, range(20))
    by_offsets = loaded(
        spark,
        cluster,
        subscribe=topic,
        startingOffsets='{"part":{"0":5,"1":-2}}',
        endingOffsets='{"part":{"0":9,"1":-1}}',
    )
    assert values_of(by_offsets) == [5, 6, 7, 8]
    rows = loaded(spark, cluster, subscribe=topic).collect()
    last_ms = max(int(row["timestamp"].timestamp() * 1000) for row in rows)
    later = loaded(
        spark,
        cluster,
        subscribe=topic,
        startingTimestamp=str(last_ms + 60_000),
        startingOffsetsByTimestampStrategy="latest",
    )
    assert values_of(later) == []
    before = loaded(
        spark, cluster, subscribe=topic, endingOffsetsByTimestamp=json.dumps({topic: {0: 0, 1: 0}})
    )
    assert values_of(before) == []


def test_an_empty_topic_has_no_rows(spark, cluster):
    topic = cluster.topic("empty", partitions=2)
    assert loaded(spark, cluster, subscribe=topic).count() == 0


def test_what_a_transaction_took_back_is_invisible_and_gaps_are_no_loss(spark, cluster):
    topic = cluster.topic("batch-transactions")

    async def produce(client):
        writer = TransactionalProducer(client, "spark-source-writer")
        await writer.init()
        for number, ending in enumerate((writer.commit, writer.abort, writer.commit)):
            await writer.begin()
            await writer.write(topic, [NewRecord(b"%d" % number, partition=0)])
            await ending()
        await writer.begin()
        await writer.write(topic, [NewRecord(b"3", partition=0)])
        return writer

    writer = cluster.ask(produce)
    assert values_of(loaded(spark, cluster, subscribe=topic)) == [0, 2]
    uncommitted = {"kafka__isolation__level": "read_uncommitted"}
    assert values_of(loaded(spark, cluster, subscribe=topic, **uncommitted)) == [0, 1, 2, 3]
    cluster.ask(lambda _: writer.commit())
    assert values_of(loaded(spark, cluster, subscribe=topic)) == [0, 2, 3]


def test_records_that_are_gone_fail_the_batch_or_are_skipped(spark, cluster):
    topic = cluster.topic("cut")
    write(cluster, topic, range(10))
    cluster.ask(lambda client: trim(client, topic, 0, 6))
    given = {"subscribe": topic, "startingOffsets": '{"cut":{"0":2}}'}
    with refused("cut-0 is to be read from offset 2, and begins at 6; set failOnDataLoss=false"):
        loaded(spark, cluster, **given).collect()
    assert values_of(loaded(spark, cluster, failOnDataLoss="false", **given)) == [6, 7, 8, 9]
    assert values_of(loaded(spark, cluster, subscribe=topic)) == [6, 7, 8, 9]


def test_a_table_of_the_catalog_is_live_and_a_frame_is_a_snapshot(spark, cluster):
    topic = cluster.topic("live")
    write(cluster, topic, range(2))
    frame = loaded(spark, cluster, subscribe=topic)
    assert frame.count() == 2
    where = f"`kafka.bootstrap.servers` '{cluster.bootstrap_servers}', subscribe '{topic}'"
    spark.sql(f"CREATE TABLE live_topic USING tidelog OPTIONS ({where})")
    try:
        assert spark.table("live_topic").count() == 2
        write(cluster, topic, range(3))
        assert spark.table("live_topic").count() == 5
        assert frame.count() == 2
        fewer = 'SELECT count(*) FROM live_topic WITH (startingOffsets = \'{"live":{"0":4}}\')'
        assert spark.sql(fewer).first()[0] == 1
    finally:
        spark.sql("DROP TABLE live_topic")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"subscribe": "nowhere"}, "there is no topic nowhere; create it first"),
        ({"subscribe": "t", "startingOffsets": '{"t":{"0"'}, 'startingOffsets is \'{"t":{"0"\''),
        ({"subscribe": "t", "subscrib": "t"}, "there is no option subscrib; did you mean"),
        ({"subscribe": "t", "schema": "offset int"}, "offset is int; it is bigint"),
        (
            {"subscribe": "t", "kafka__bootstrap__servers": "127.0.0.1:1", **BRIEF},
            "127.0.0.1:1 cannot be reached",
        ),
    ],
)
def test_what_cannot_be_read_is_one_clear_line(spark, cluster, given, words):
    with refused(words):
        loaded(spark, cluster, **given).collect()
