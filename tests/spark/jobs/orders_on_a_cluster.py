"""A job as a user would submit it: sums over a topic, then a stream from it into another.

Beyond that it notes which processes its tasks ran in, and kills an executor in the middle of the
stream. What it found is printed as the last line, as json.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from support.spark_cluster import QUICK_START
from tidelog.spark.session import open_session

EXECUTORS = 2
STREAM_WITHIN_SECONDS = 120
POLL_SECONDS = 0.02
CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": QUICK_START,
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": QUICK_START,
    "spark.cores.max": str(EXECUTORS),
    "spark.sql.shuffle.partitions": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # nothing runs before both are there
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
}


def executor_of(rows: Iterable[object]) -> Iterator[tuple[int, int]]:
    """(process id of the executor, records): its daemon of Python workers is our parent."""
    count = sum(1 for _ in rows)
    status = Path(f"/proc/{os.getppid()}/status").read_text("ascii")
    parent = next(line for line in status.splitlines() if line.startswith("PPid:"))
    yield int(parent.split()[1]), count


def topic(spark: SparkSession, bootstrap: str, name: str) -> DataFrame:
    return (
        spark.read.format("tidelog")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", name)
        .option("minPartitions", 2 * EXECUTORS)
        .load()
    )


def copied(
    spark: SparkSession, bootstrap: str, names: list[str], checkpoint: str
) -> StreamingQuery:
    """A stream from one topic into another, exactly once, in several batches."""
    source, target = names
    return (
        spark.readStream.format("tidelog")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 2_000)
        .load()
        .select("key", "value")
        .writeStream.format("tidelog")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("sinkId", target)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )


def killed_in_the_middle(query: StreamingQuery, executor: int) -> int:
    """Once a first batch is through, an executor dies; how many batches there were in the end."""
    deadline = time.monotonic() + STREAM_WITHIN_SECONDS
    while query.isActive and not query.recentProgress:
        if time.monotonic() > deadline:
            raise TimeoutError("no batch was finished")
        time.sleep(POLL_SECONDS)
    os.kill(executor, signal.SIGKILL)
    if not query.awaitTermination(STREAM_WITHIN_SECONDS):
        query.stop()
        raise TimeoutError("the stream did not end")
    return sum(progress["numInputRows"] > 0 for progress in query.recentProgress)


def main(spark_url: str, bootstrap: str, source: str, target: str, checkpoint: str) -> None:
    spark = open_session("orders", spark_url=spark_url, conf=CONF)
    try:
        orders = topic(spark, bootstrap, source)
        amount = f.get_json_object(f.col("value").cast("string"), "$.amount").cast("long")
        sums = orders.groupBy(f.col("key").cast("string").alias("who")).agg(f.sum(amount))
        found = {row[0]: row[1] for row in sums.collect()}
        ran = orders.rdd.mapPartitions(executor_of).collect()
        executors = sorted({executor for executor, count in ran if count})
        query = copied(spark, bootstrap, [source, target], checkpoint)
        batches = killed_in_the_middle(query, executors[-1])
    finally:
        spark.stop()
    document = {"sums": found, "executors": executors, "batches": batches}
    sys.stdout.write(json.dumps(document) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
