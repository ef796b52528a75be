"""Spark writes to topics: batch and stream, and what it says when rows cannot be written."""

import confluent_kafka
import pytest

from support.sink_bench import committed
from tidelog.spark.failure import words_of
from tidelog.spark.marker import MarkerKey, MarkerLog


def target(cluster, topic=None, **more):
    given = {"kafka.bootstrap.servers": cluster.bootstrap_servers, **more}
    return {**given, **({"topic": topic} if topic else {})}


def save(frame, options):
    frame.write.format("tidelog").mode("append").options(**options).save()


def refusal(frame, options, mode="append"):
    """Our own words about a write that fails."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever Spark wraps it into
        frame.write.format("tidelog").mode(mode).options(**options).save()
    return words_of(caught.value)


def consume(cluster, topic):
    """All committed messages, by a client that is not ours."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": f"readers-of-{topic}",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    partitions = consumer.list_topics(topic, 10).topics[topic].partitions
    consumer.assign([confluent_kafka.TopicPartition(topic, index, 0) for index in partitions])
    messages, ended = [], 0
    try:
        while ended < len(partitions):
            message = consumer.poll(10)
            assert message is not None
            if message.error() is None:
                messages.append(message)
            else:
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
                ended += 1
    finally:
        consumer.close()
    return messages


def replicated_to_all(cluster, topic, partitions):
    """Whether each leader's high watermark is at its log end, so that readers see every record."""
    leaders = (
        cluster.replica(cluster.partition(topic, each).leader, topic, each)
        for each in range(partitions)
    )
    return all(each and each["high_watermark"] == each["log_end_offset"] for each in leaders)


def test_a_data_frame_is_written_with_everything_a_record_has(spark, cluster):
    topic = cluster.topic("sink-whole", partitions=3)
    frame = spark.sql(
        """
        SELECT * FROM VALUES
          ('k0', 'v0', 2, timestamp'2024-05-06 07:08:09.123Z',
           array(named_struct('key', 'h', 'value', cast('x' AS binary)),
                 named_struct('key', 'n', 'value', cast(null AS binary))), 17),
          (null, null, 1, null, null, 18)
        AS t(key, value, partition, timestamp, headers, offset)
        """
    )
    save(frame, target(cluster, topic, compression="zstd"))
    first, second = sorted(consume(cluster, topic), key=lambda each: -each.partition())
    assert (first.key(), first.value(), first.partition()) == (b"k0", b"v0", 2)
    assert first.headers() == [("h", b"x"), ("n", None)]
    assert first.timestamp()[1] == 1714979289123
    assert (second.key(), second.value(), second.partition()) == (None, None, 1)
    assert second.headers() is None
    assert second.timestamp()[1] > 1714979289123


def test_rows_go_to_the_topics_they_name(spark, cluster):
    for name in ("sink-red", "sink-blue"):
        cluster.topic(name, partitions=2)
    frame = spark.range(1000).selectExpr(
        "IF(id % 3 = 0, 'sink-red', 'sink-blue') AS topic", "CAST(id AS string) AS value"
    )
    save(frame, target(cluster))
    assert len(committed(cluster, "sink-red")) == 334
    assert len(committed(cluster, "sink-blue")) == 666


def test_a_batch_write_with_ids_happens_once(spark, cluster):
    topic = cluster.topic("sink-ids", partitions=2)
    frame = spark.range(100).selectExpr("CAST(id AS string) AS value")
    for version in ("4", "4", "3", "5"):
        save(frame, target(cluster, topic, txnAppId="nightly", txnVersion=version))
    assert len(committed(cluster, topic)) == 200


def test_a_write_at_least_once_needs_no_transaction(spark, cluster):
    topic = cluster.topic("sink-plain", partitions=3)
    frame = spark.range(5000).selectExpr("CAST(id AS string) AS key", "CAST(id AS string) AS value")
    save(frame, target(cluster, topic, exactlyOnce="false", **{"kafka.acks": "1"}))
    cluster.wait(lambda: replicated_to_all(cluster, topic, 3))  # acks=1 does not wait for followers
    assert sorted(int(value) for value in committed(cluster, topic)) == list(range(5000))


def test_much_is_staged_in_files_that_are_gone_afterwards(spark, cluster, tmp_path):
    topic = cluster.topic("sink-much", partitions=3)
    frame = spark.range(6000).repartition(2).selectExpr("repeat('x', 1000) AS value")
    save(frame, target(cluster, topic, stagingDir=str(tmp_path / "staging")))
    assert len(committed(cluster, topic)) == 6000
    assert list((tmp_path / "staging").iterdir()) == []


def markers(cluster):
    async def look(client):
        log = MarkerLog(client)
        await log.refresh()
        return log.markers

    return cluster.ask(look)


def test_a_stream_is_written_once_though_its_commit_log_is_lost(spark, cluster, tmp_path):
    """The log of commits is Spark's; without its last entry the batch is tried again."""
    topic = cluster.topic("sink-stream", partitions=3)
    checkpoint = tmp_path / "checkpoint"

    def run(rows):
        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 200).load()
        query = (
            source.selectExpr("CAST(value AS string) AS value")
            .writeStream.format("tidelog")
            .options(**target(cluster, topic))
            .option("checkpointLocation", str(checkpoint))
            .start()
        )
        try:
            cluster.wait(lambda: query.exception() or len(committed(cluster, topic)) >= rows)
            assert query.exception() is None
        finally:
            query.stop()
        return query

    first = run(400)
    commits = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    commits[-1].unlink()
    (checkpoint / "commits" / f".{commits[-1].name}.crc").unlink(missing_ok=True)
    before = len(committed(cluster, topic))
    second = run(before + 200)
    marker = markers(cluster)[MarkerKey(second.id, second.id)]
    assert (marker.run_id, marker.superseded) == (second.runId, (first.runId,))
    values = sorted(int(value) for value in committed(cluster, topic))
    assert values == list(range(len(values)))


def test_what_cannot_be_written_is_told_in_one_line(spark, cluster):
    topic = cluster.topic("sink-wrong", partitions=2)
    assert refusal(spark.sql("SELECT 1 AS value"), target(cluster, topic)).startswith(
        "column value is int, it must be string or binary"
    )
    text = spark.sql("SELECT 'x' AS value")
    assert "never overwritten" in refusal(text, target(cluster, topic), mode="overwrite")
    beyond = spark.sql("SELECT 'x' AS value, 7 AS partition")
    assert "is for partition 7, the topic has 2" in refusal(beyond, target(cluster, topic))
    assert committed(cluster, topic) == []
    words = refusal(text, target(cluster, "no/such/topic"))
    assert "there is no topic no/such/topic" in words
