"""Streams over topics, with a real Spark and a real cluster."""

import json

import pytest
from pyspark.errors import StreamingQueryException

from support.spark_story import refused, streamed, values_of, write
from tidelog.client import Admin, Client, NewRecord, Producer
from tidelog.client.loop_thread import LoopThread
from tidelog.client.offsets import trim
from tidelog.spark.data_source import TidelogDataSource
from tidelog.spark.lag import LagListener
from tidelog.spark.stream_reader import TopicStreamReader

EARLIEST = {"startingOffsets": "earliest"}


class CrashError(Exception):
    pass


class Query:
    """Runs a stream until it has read what is there, as often as it is asked to."""

    def __init__(self, frame, checkpoint):
        self.frame = frame
        self.checkpoint = str(checkpoint)
        self.progress = []

    def run(self, *, fails=False, name=None, once=False):
        """The values of each micro-batch that has any."""
        seen = []

        def take(frame, _batch_id):
            if fails:
                raise CrashError("in the middle of a batch")
            values = values_of(frame)
            if values:
                seen.append(values)

        trigger = {"once": True} if once else {"availableNow": True}
        writer = self.frame.writeStream.foreachBatch(take)
        writer = writer.option("checkpointLocation", self.checkpoint).trigger(**trigger)
        query = (writer.queryName(name) if name else writer).start()
        try:
            assert query.awaitTermination(120)
            self.progress = query.recentProgress
        finally:
            query.stop()
        return seen


def test_a_stream_goes_on_after_a_restart_and_finds_new_partitions(spark, cluster, tmp_path):
    topic = cluster.topic("restarts")
    write(cluster, topic, range(10))
    query = Query(streamed(spark, cluster, subscribe=topic, **EARLIEST), tmp_path)
    assert query.run() == [list(range(10))]
    assert json.loads(query.progress[-1]["sources"][0]["endOffset"]) == {topic: {"0": 10}}
    cluster.ask(lambda client: Admin(client).add_partitions(topic, 2))
    cluster.wait(lambda: cluster.partition(topic, 1).leader is not None)
    write(cluster, topic, range(10, 15), partition=1)
    assert query.run() == [list(range(10, 15))]


def test_batches_are_as_large_as_asked_for_and_lag_is_told(spark, cluster, tmp_path):
    topic = cluster.topic("paced")
    write(cluster, topic, range(10))
    paced = {"maxOffsetsPerTrigger": "4", **EARLIEST}
    query = Query(streamed(spark, cluster, subscribe=topic, **paced), tmp_path)
    told = []
    listener = LagListener(told.append)
    spark.streams.addListener(listener)
    try:
        assert query.run(name="paced") == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        cluster.wait(lambda: len(told) >= 3)
    finally:
        spark.streams.removeListener(listener)
    assert [lag.total for lag in told[:3]] == [6, 2, 0]
    assert told[0].query_name == "paced"
    assert told[0].metrics == {
        "minOffsetsBehindLatest": "6",
        "maxOffsetsBehindLatest": "6",
        "avgOffsetsBehindLatest": "6.0",
    }


def register_meddler(spark, topic):
    """A source under which records come in just after a stream has resolved where it starts."""

    class MeddledReader(TopicStreamReader):
        def latestOffset(self, start, limit):  # noqa: N802
            loop = LoopThread()

            async def produce():
                async with Client(self._topics.options.bootstrap) as client:
                    records = [NewRecord(b"%d" % n, partition=0) for n in range(5)]
                    await Producer(client).write(topic, records)

            if start == {topic: {"0": 10}}:
                loop.run(produce())
            loop.close()
            return super().latestOffset(start, limit)

    class MeddledSource(TidelogDataSource):
        @classmethod
        def name(cls):
            return f"meddled_{topic}"

        def streamReader(self, schema):  # noqa: N802
            return MeddledReader(self.options, schema)

    spark.dataSource.register(MeddledSource)
    return MeddledSource.name()


def test_a_crash_in_the_first_batch_from_latest_loses_nothing(spark, cluster, tmp_path):
    topic = cluster.topic("pitfall")
    write(cluster, topic, range(10))
    kind = register_meddler(spark, topic)
    given = {"subscribe": topic, "sourceId": "pitfall"}
    query = Query(streamed(spark, cluster, kind=kind, **given), tmp_path)
    with pytest.raises(StreamingQueryException, match="in the middle of a batch"):
        query.run(fails=True, once=True)
    write(cluster, topic, [99])
    assert query.run(once=True) == [[0, 1, 2, 3, 4]]
    assert query.run() == [[99]]


def test_a_crash_in_the_first_batch_is_told_where_its_start_was_not_kept(spark, cluster, tmp_path):
    topic = cluster.topic("unkept")
    write(cluster, topic, range(10))
    kind = register_meddler(spark, topic)
    query = Query(streamed(spark, cluster, kind=kind, subscribe=topic), tmp_path)
    with pytest.raises(StreamingQueryException, match="in the middle of a batch"):
        query.run(fails=True, once=True)
    with refused("the first batch of this query was cut short, and where it began is not known"):
        query.run(once=True)


def test_records_that_went_while_a_stream_was_away_fail_it_or_are_skipped(spark, cluster, tmp_path):
    topic = cluster.topic("retained")
    write(cluster, topic, range(4))
    given = {"subscribe": topic, **EARLIEST}
    query = Query(streamed(spark, cluster, **given), tmp_path)
    assert query.run() == [[0, 1, 2, 3]]
    write(cluster, topic, range(4, 10))
    cluster.ask(lambda client: trim(client, topic, 0, 7))
    with refused("retained-0 was read to 4, and begins at 7 now; set failOnDataLoss=false"):
        query.run()
    lenient = streamed(spark, cluster, failOnDataLoss="false", **given)
    assert Query(lenient, tmp_path).run() == [[7, 8, 9]]


def test_an_end_in_a_stream_is_refused(spark, cluster, tmp_path):
    frame = streamed(spark, cluster, subscribe="t", endingOffsets="latest")
    with refused("the option endingOffsets is for batches; a stream has no end"):
        Query(frame, tmp_path).run()


def test_a_table_of_the_catalog_is_a_stream_too(spark, cluster, tmp_path):
    topic = cluster.topic("streamed-table")
    write(cluster, topic, range(3))
    where = f"`kafka.bootstrap.servers` '{cluster.bootstrap_servers}', subscribe '{topic}'"
    spark.sql(
        f"CREATE TABLE streamed_table USING tidelog OPTIONS ({where}, startingOffsets 'earliest')"
    )
    try:
        assert Query(spark.readStream.table("streamed_table"), tmp_path).run() == [[0, 1, 2]]
    finally:
        spark.sql("DROP TABLE streamed_table")
