"""Spark's own Kafka connector and `format("tidelog")`, one story for both."""

from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from tidelog.client.producer import NewRecord, Producer
from tidelog.spark.lag import with_lag
from tidelog.testing import Cluster

STOCK, OURS = "kafka", "tidelog"
COLUMNS = ["key", "value", "topic", "partition", "offset", "timestampType"]
GUARD_S = 120


class Side(NamedTuple):
    """One connector, with the session and the cluster."""

    connector: str
    spark: SparkSession
    cluster: Cluster

    @property
    def at(self):
        return {"kafka.bootstrap.servers": self.cluster.bootstrap_servers}

    def read(self, **options):
        return self.spark.read.format(self.connector).options(**self.at, **options).load()

    def stream(self, **options):
        return self.spark.readStream.format(self.connector).options(**self.at, **options).load()

    def write(self, frame, **options):
        """A batch write that nobody has given a mode."""
        return frame.write.format(self.connector).options(**self.at, **options)

    def progress(self, query):
        """Of every batch, as dashboards read it: ours with the metrics that Spark leaves out."""
        told = query.recentProgress
        return [with_lag(each) for each in told if each.numInputRows]


def write(cluster, topic, numbers, *, partitions=3):
    async def produce(client):
        records = [
            NewRecord(b"v%d" % n, b"k%d" % n, (("n", b"%d" % n),), 1_000 * n, n % partitions)
            for n in numbers
        ]
        await Producer(client).write(topic, records)

    cluster.ask(produce)


def rows_of(frame, *columns):
    chosen = frame.select(*(columns or COLUMNS)).collect()
    return sorted(tuple(row) for row in chosen)


def expected(topic, numbers):
    return sorted(
        (bytearray(b"k%d" % n), bytearray(b"v%d" % n), topic, n % 3, n // 3, 0) for n in numbers
    )


def drained(frame: DataFrame, checkpoint, take=None):
    """The query, after it has read what is there; `take` is given every micro-batch."""
    writer = frame.writeStream.format("noop") if take is None else frame.writeStream
    if take is not None:
        writer = writer.foreachBatch(take)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(GUARD_S)
    finally:
        query.stop()
    return query


def copy_stream(side, topic, home):
    """Everything new of a topic into Parquet, with a checkpoint; how many rows it took."""
    stream = side.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="12")
    query = (
        stream.writeStream.format("parquet")
        .option("path", str(home / "out"))
        .option("checkpointLocation", str(home / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(GUARD_S)
    return sum(each.numInputRows for each in query.recentProgress)
