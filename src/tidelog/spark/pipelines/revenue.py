"""Orders in; revenue per minute out, and every order kept: the pipeline of `tidelog demo`.

`examples/streaming-revenue` is the same as a program of its own.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, from_json, struct, sum, to_json, window
from pyspark.sql.streaming.query import StreamingQuery

ORDER = """
    order_id string, customer string, product string, quantity int,
    unit_price decimal(9,2), currency string, event_time timestamp
"""


def orders_of(records: DataFrame) -> DataFrame:
    """Records of the topic, whose values are JSON, as orders; and where each of them is."""
    order = from_json(col("value").cast("string"), ORDER)
    return records.select("partition", "offset", order.alias("order")).select(
        "partition", "offset", "order.*"
    )


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


def read_orders(spark: SparkSession, servers: str) -> DataFrame:
    records = (
        spark.readStream.format("tidelog")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
    )
    return orders_of(records)


def publish(revenue: DataFrame, servers: str, checkpoint: str) -> StreamingQuery:
    """Into the topic `revenue`: a micro-batch is one transaction, and none is written twice."""
    return (
        revenue.select(col("currency").alias("key"), to_json(struct("*")).alias("value"))
        .writeStream.format("tidelog")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", "revenue")
        .option("sinkId", "revenue-per-minute")
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="1 second")
        .start()
    )


def keep(orders: DataFrame, table: str, checkpoint: str) -> StreamingQuery:
    """Into a Delta table: the files of a micro-batch are in it together, or not at all."""
    return (
        orders.writeStream.format("tidelog_table")
        .option("path", table)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="2 seconds")
        .start()
    )
