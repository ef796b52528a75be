"""Batches over topics, with a real Spark and a real cluster."""

from support.spark_story import loaded, refused, values_of, write


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


def test_an_unknown_topic_is_named(spark, cluster):
    with refused("there is no topic nowhere; create it first"):
        loaded(spark, cluster, subscribe="nowhere").collect()


def test_part_of_a_topic_by_offsets(spark, cluster):
    topic = cluster.topic("part", partitions=2)
    write(cluster, topic, range(20))
    frame = loaded(
        spark,
        cluster,
        subscribe=topic,
        startingOffsets='{"part":{"0":5,"1":-2}}',
        endingOffsets='{"part":{"0":9,"1":-1}}',
        schema="value binary",
    )
    assert values_of(frame) == [5, 6, 7, 8]
