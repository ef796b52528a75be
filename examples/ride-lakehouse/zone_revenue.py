"""Fares and tips per zone and minute, from the topic of rides into another one, exactly once.

python zone_revenue.py HOST:PORT REGISTRY CHECKPOINT

A row is written when its minute is over: when an event ten minutes younger has been seen. What
comes later than that is left out here; the archive has it. Prints a line of JSON per batch.
"""

import json
import signal
import sys
from collections.abc import Iterator

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, struct, sum, to_json, unix_millis, window
from pyspark.sql.streaming import StreamingQuery

from rides import WATERMARK_MINUTES

# The fields that this job needs. Versions of the schema that add others are none of its business.
VALUE = "value struct<kind:string, at:timestamp, zone:int, fare_cents:bigint, tip_cents:bigint>"
POLL_SECONDS = 1


def read_rides(spark: SparkSession, servers: str, registry: str) -> DataFrame:
    """Values that are no Avro are null: they have no kind, and count for nothing."""
    records = (
        spark.readStream.format("tidelog")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "rides")
        .option("startingOffsets", "earliest")
        .option("valueFormat", "avro")
        .option("registry", registry)
        .option("newFields", "ignore")
        .option("packPartitions", "true")
        .schema(VALUE)
        .load()
    )
    return records.select("value.*")


def revenue_per_zone(rides: DataFrame) -> DataFrame:
    return (
        rides.withWatermark("at", f"{WATERMARK_MINUTES} minutes")
        .where("kind = 'dropped_off'")
        .groupBy(window("at", "1 minute"), "zone")
        .agg(count("*").alias("rides"), sum(col("fare_cents") + col("tip_cents")).alias("cents"))
        .select(unix_millis("window.start").alias("minute_ms"), "zone", "rides", "cents")
    )


def start(revenue: DataFrame, servers: str, checkpoint: str) -> StreamingQuery:
    return (
        revenue.select(col("zone").cast("string").alias("key"), to_json(struct("*")).alias("value"))
        .writeStream.format("tidelog")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", "zone-revenue")
        .option("sinkId", "zone-revenue")
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="1 second")
        .start()
    )


def batches(query: StreamingQuery, told: int) -> Iterator[dict]:
    """Those that were run since, as they matter here."""
    for progress in query.recentProgress:
        found = json.loads(progress.json)
        if found["batchId"] <= told or "addBatch" not in found["durationMs"]:
            continue
        (source,) = found["sources"]
        offsets = {
            f"{topic}-{partition}": offset
            for topic, ends in source["endOffset"].items()
            for partition, offset in ends.items()
        }
        yield {
            "batch": found["batchId"],
            "rows_in": found["numInputRows"],
            "seconds": found["durationMs"]["triggerExecution"] / 1000,
            "watermark": found.get("eventTime", {}).get("watermark"),
            "offsets": offsets,
        }


def main(servers: str, registry: str, checkpoint: str) -> None:
    spark = (
        SparkSession.builder.appName("zone revenue")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    query = start(revenue_per_zone(read_rides(spark, servers, registry)), servers, checkpoint)
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    told = -1
    while True:
        ended = query.awaitTermination(POLL_SECONDS)
        for batch in batches(query, told):
            told = batch["batch"]
            print(json.dumps(batch), flush=True)
        if ended or asked:
            break
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:4])
