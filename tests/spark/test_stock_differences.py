"""The table in docs/spark.md, row by row: the same story with Spark's own Kafka connector and with
ours, and what came of it compared."""

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, StreamingQueryException
from pyspark.sql.functions import count, spark_partition_id
from pyspark.sql.functions import min as least

from support.two_connectors import OURS, STOCK, drained, rows_of, write
from tidelog.client import NewRecord, Producer
from tidelog.spark.failure import words_of

REFUSALS = {STOCK: IllegalArgumentException, OURS: AnalysisException}
"""Spark makes the second of everything that a Python source raises."""


@pytest.fixture(scope="module")
def topic(cluster):
    """30 records of three partitions, that nobody adds to."""
    name = cluster.topic("differences", partitions=3)
    write(cluster, name, range(30))
    return name


@pytest.fixture(scope="module")
def skewed(cluster):
    """Partitions of 23, 6 and 3 records. In batches the stock connector counts empty ones too."""
    name = cluster.topic("skewed", partitions=3)

    async def produce(client):
        sizes = enumerate((23, 6, 3))
        records = [NewRecord(b"v", partition=index) for index, size in sizes for _ in range(size)]
        await Producer(client).write(name, records)

    cluster.ask(produce)
    return name


# ---- a pattern that nothing matches yet ----


def test_a_batch_over_topics_that_are_not_there_yet_has_no_rows(sides):
    for side in sides:
        assert side.read(subscribePattern="not-there-.*").collect() == []


def test_a_stream_starts_before_its_topics_and_reads_them_from_the_beginning(side, tmp_path):
    name = f"late-{side.connector}"
    stream = side.stream(subscribePattern=f"{name}-.*", startingOffsets="latest")
    query = (
        stream.selectExpr("cast(value as string)")
        .writeStream.format("memory")
        .queryName(f"late_{side.connector}")
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    try:
        assert query.exception() is None
        side.cluster.wait(lambda: query.lastProgress is not None)
        write(side.cluster, side.cluster.topic(f"{name}-1", partitions=3), range(6))
        rows = side.spark.table(f"late_{side.connector}")
        side.cluster.wait(lambda: query.exception() is not None or rows.count() >= 6)
        assert sorted(row.value for row in rows.collect()) == [f"v{n}" for n in range(6)]
    finally:
        query.stop()


# ---- what dashboards read ----


def test_progress_says_how_far_a_query_is_behind_and_names_its_topics(sides, topic, tmp_path):
    seen = {}
    for side in sides:
        paced = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "12"}
        query = drained(side.stream(subscribe=topic, **paced), tmp_path / side.connector)
        sources = [each["sources"][0] for each in side.progress(query)]
        assert all(topic in each["description"] for each in sources)
        seen[side.connector] = [(each["endOffset"], each["metrics"]) for each in sources]
    assert seen[OURS] == seen[STOCK]
    assert [metrics["maxOffsetsBehindLatest"] for _, metrics in seen[OURS]] == ["6", "2", "0"]


def test_a_table_is_described_with_the_topics_it_reads(sides, topic):
    for side in sides:
        name = f"described_{side.connector}"
        where = f"`kafka.bootstrap.servers` '{side.cluster.bootstrap_servers}', subscribe '{topic}'"
        side.spark.sql(f"CREATE TABLE {name} USING {side.connector} OPTIONS ({where})")
        try:
            told = side.spark.sql(f"DESCRIBE EXTENDED {name}").collect()
        finally:
            side.spark.sql(f"DROP TABLE {name}")
        assert topic in str(told), told


# ---- which tasks there are ----


def tasks_in(frame):
    """The partition, the first offset and the size of what each task reads."""
    tasks = frame.groupBy(spark_partition_id().alias("task"), "partition").agg(
        least("offset"), count("*")
    )
    rows = [tuple(row) for row in tasks.collect()]
    assert len({task for task, *_ in rows}) == len(rows), "no task reads two partitions"
    return sorted(rest for _, *rest in rows)


@pytest.mark.parametrize(
    ("planned", "tasks"),
    [
        ({}, 3),
        ({"minPartitions": "4"}, 4),
        ({"minPartitions": "13"}, 13),
        ({"minPartitions": "8", "maxRecordsPerPartition": "7"}, 7),
    ],
    ids=str,
)
def test_a_batch_has_the_tasks_of_the_stock_connector(sides, skewed, planned, tasks):
    stock, ours = (tasks_in(side.read(subscribe=skewed, **planned)) for side in sides)
    assert ours == stock
    assert len(ours) == tasks


def test_a_stream_has_the_tasks_of_the_stock_connector(sides, skewed, tmp_path):
    planned = {"startingOffsets": "earliest", "maxRecordsPerPartition": "4"}
    seen = {}
    for side in sides:

        def take(frame, _, connector=side.connector):
            seen[connector] = tasks_in(frame)

        drained(side.stream(subscribe=skewed, **planned), tmp_path / side.connector, take)
    assert seen[OURS] == seen[STOCK]
    assert len(seen[OURS]) == 6 + 2 + 1


def test_small_partitions_share_a_task_when_asked_to(sides, skewed):
    _, ours = sides
    packed = ours.read(subscribe=skewed, packPartitions="true")
    assert packed.select(spark_partition_id()).distinct().count() == 1


# ---- what is refused, and when ----


def refused_at_load(side, reader, **options):
    """What the connector says before any query runs, in lower case."""
    with pytest.raises(REFUSALS[side.connector]) as refused:
        reader(**options)
    words = words_of(refused.value)
    assert (words is None) == (side.connector == STOCK), refused.value
    return (words or str(refused.value)).lower()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "subscribepattern"),
        ({"subscribe": "a", "assign": '{"a":[0]}'}, "one of"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "earliest"),
        ({"subscribe": "a", "startingOffsets": "soon"}, "soon"),
        ({"subscribe": "a", "kafka.auto.offset.reset": "latest"}, "auto.offset.reset"),
        ({"subscribe": "a", "kafka.enable.auto.commit": "true"}, "enable.auto.commit"),
        ({"subscribe": "a", "kafka.key.deserializer": "x"}, "key.deserializer"),
        ({"subscribe": "a", "minPartitions": "0"}, "minpartitions"),
        ({"subscribe": "a", "maxRecordsPerPartition": "0"}, "maxrecordsperpartition"),
        ({"subscribePattern": "a("}, "a("),
    ],
    ids=lambda value: ",".join(value) or "nothing" if isinstance(value, dict) else None,
)
def test_wrong_options_are_refused_at_load_and_named(sides, options, named):
    for side in sides:
        assert named in refused_at_load(side, side.read, **options)


def test_wrong_options_of_a_stream_are_refused_at_load(sides):
    for side in sides:
        refused_at_load(side, side.stream, subscribe="a", minPartitions="0")


def test_what_a_batch_alone_refuses_is_refused_before_a_row_is_read(sides, topic):
    """Spark does not tell a Python source at load() whether it is for a batch or a stream."""
    for side in sides:
        with pytest.raises(REFUSALS[side.connector], match="latest"):
            side.read(subscribe=topic, startingOffsets="latest").collect()


def test_what_a_stream_alone_refuses_is_refused_before_its_first_batch(sides, topic, tmp_path):
    stock, ours = sides
    refused_at_load(stock, stock.stream, subscribe=topic, endingOffsets="latest")
    with pytest.raises(StreamingQueryException, match="endingOffsets is for batches"):
        drained(ours.stream(subscribe=topic, endingOffsets="latest"), tmp_path)


def test_a_limit_of_micro_batches_has_no_effect_on_a_batch(sides, topic):
    for side in sides:
        assert side.read(subscribe=topic, maxOffsetsPerTrigger="2").count() == 30


def test_a_group_may_be_named_and_its_name_without_prefix_is_corrected(sides, topic):
    stock, ours = sides
    for side in sides:
        named = {"kafka.group.id": "mine", "groupIdPrefix": "unused"}
        assert side.read(subscribe=topic, **named).count() == 30
    assert stock.read(subscribe=topic, **{"group.id": "mine"}).count() == 30  # without a word
    words = refused_at_load(ours, ours.read, subscribe=topic, **{"group.id": "mine"})
    assert words == "there is no option group.id; did you mean kafka.group.id?"


# ---- batch writes ----


def test_a_batch_write_needs_no_mode(sides, spark):
    rows = spark.range(5).selectExpr("cast(id as string) value")
    for side in sides:
        target = side.cluster.topic(f"written-{side.connector}")
        side.write(rows, topic=target, includeHeaders="true").save()
        side.write(rows, topic=target).mode("errorifexists").save()
        side.write(rows, topic=target).mode("append").save()
        assert len(rows_of(side.read(subscribe=target), "value")) == 15


@pytest.mark.parametrize("mode", ["overwrite", "ignore"])
def test_a_topic_is_never_overwritten_nor_left_as_it_is(sides, spark, topic, mode):
    rows = spark.range(5).selectExpr("cast(id as string) value")
    for side in sides:
        with pytest.raises(AnalysisException):
            side.write(rows, topic=topic).mode(mode).save()
        assert side.read(subscribe=topic).count() == 30


def test_a_write_without_a_topic_is_refused_at_save(sides, spark):
    rows = spark.range(5).selectExpr("cast(id as string) value")
    for side in sides:
        with pytest.raises(AnalysisException, match="topic"):
            side.write(rows).save()
