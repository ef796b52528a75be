"""Topics as tables, with a real Spark over the files of a real cluster."""

from confluent_kafka import Producer

from support.spark_story import refused, values_of, write


def paths(cluster):
    return ",".join(str(cluster.data_dir(node)) for node in cluster.brokers)


def table(spark, cluster, topic, **options):
    """Live bounds, so that what was just acknowledged is there."""
    reader = spark.read.format("tidelog").option("path", paths(cluster))
    reader = reader.option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    return reader.option("subscribe", topic).options(**options)


def test_a_data_frame_is_a_snapshot_and_a_table_is_live(spark, cluster):
    topic = cluster.topic("segments-table", partitions=2)
    write(cluster, topic, range(100))
    write(cluster, topic, range(100, 150), partition=1)
    frame = table(spark, cluster, topic).load()
    assert values_of(frame) == list(range(150))
    spark.sql(
        f"CREATE TABLE live USING tidelog OPTIONS (path '{paths(cluster)}', subscribe '{topic}',"
        f" `kafka.bootstrap.servers` '{cluster.bootstrap_servers}')"
    )
    try:
        assert spark.sql("SELECT count(*) FROM live").first()[0] == 150
        write(cluster, topic, range(150, 160))
        assert frame.count() == 150
        assert spark.sql("SELECT count(*), max(offset) FROM live").first()[:] == (160, 109)
    finally:
        spark.sql("DROP TABLE live")


def test_part_of_a_topic_with_some_columns(spark, cluster):
    topic = cluster.topic("segments-narrow")
    write(cluster, topic, range(50))
    wanted = {
        "startingOffsets": '{"segments-narrow":{"0":10}}',
        "endingOffsets": '{"segments-narrow":{"0":13}}',
    }
    frame = table(spark, cluster, topic, **wanted).schema("offset bigint, partition int").load()
    assert sorted(tuple(row) for row in frame.collect()) == [(10, 0), (11, 0), (12, 0)]


def test_batches_are_rows_for_every_replica(spark, cluster):
    topic = cluster.topic("segments-batches", replication_factor=3)
    write(cluster, topic, range(10))
    write(cluster, topic, range(5))

    def view(**where):
        options = {"view": "batches", "subscribe": topic} | where
        return spark.read.format("tidelog").options(**options).load()

    found = view(path=paths(cluster))
    rows = found.orderBy("broker", "baseOffset").collect()
    assert [row["broker"] for row in rows] == sorted(cluster.brokers * 2)
    first, second = rows[:2]
    assert (first["baseOffset"], first["lastOffset"], first["records"]) == (0, 9, 10)
    assert (second["baseOffset"], second["position"]) == (10, first["sizeBytes"])
    assert all(row["crcOk"] and row["problem"] is None for row in rows)
    assert len({(row["baseOffset"], row["crc"]) for row in rows}) == 2
    with refused("view=batches asks for batches"):
        view(**{"kafka.bootstrap.servers": cluster.bootstrap_servers}).collect()


def test_an_aborted_transaction_is_not_in_the_table(spark, cluster):
    topic = cluster.topic("segments-transactional")
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "segments"}
    )
    producer.init_transactions(30)
    for number, commits in ((1, True), (2, False), (3, True)):
        producer.begin_transaction()
        producer.produce(topic, str(number))
        producer.flush(30)
        if commits:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    assert values_of(table(spark, cluster, topic).load()) == [1, 3]
    everything = {"kafka.isolation.level": "read_uncommitted"}
    assert values_of(table(spark, cluster, topic, **everything).load()) == [1, 2, 3]
