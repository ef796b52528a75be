"""Revenue per minute of the topic `orders`, into the topic `revenue`, exactly once.

python revenue.py [--once] [HOST:PORT]
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, from_json, struct, sum, to_json, window

ORDER = """
    order_id string, customer string, product string, quantity int,
    unit_price decimal(9,2), currency string, event_time timestamp
"""


def read_orders(spark: SparkSession, servers: str) -> DataFrame:
    """Every record of the topic is an order, written as JSON."""
    records = (
        spark.readStream.format("tidelog")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
    )
    return records.select(from_json(col("value").cast("string"), ORDER).alias("o")).select("o.*")


def revenue_per_minute(orders: DataFrame) -> DataFrame:
    """One row per minute and currency, when no order of that minute will come any more."""
    return (
        orders.withWatermark("event_time", "2 minutes")
        .groupBy(window("event_time", "1 minute"), "currency")
        .agg(
            count("*").alias("orders"),
            sum(col("quantity") * col("unit_price")).alias("revenue"),
        )
        .select(col("window.start").alias("minute"), "currency", "orders", "revenue")
    )


def main(servers: str, *, once: bool, checkpoint: str = "checkpoint-revenue") -> None:
    spark = (
        SparkSession.builder.appName("streaming revenue")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    revenue = revenue_per_minute(read_orders(spark, servers))
    query = (
        revenue.select(col("currency").alias("key"), to_json(struct("*")).alias("value"))
        .writeStream.format("tidelog")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", "revenue")
        .option("sinkId", "streaming-revenue")
        .option("checkpointLocation", checkpoint)
        .trigger(**{"availableNow": True} if once else {"processingTime": "1 second"})
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    given = [each for each in sys.argv[1:] if each != "--once"]
    main(given[0] if given else "localhost:9092", once="--once" in sys.argv)
