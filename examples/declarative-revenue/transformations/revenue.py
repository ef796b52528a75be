"""Orders from a topic into a table, revenue per minute as a view and into a topic."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, from_json, struct, sum, to_json, window

ORDER = """
    order_id string, customer string, product string, quantity int,
    unit_price decimal(9,2), currency string, event_time timestamp
"""

spark = SparkSession.active()
servers = spark.conf.get("revenue.servers")


def per_minute(orders: DataFrame) -> DataFrame:
    return (
        orders.groupBy(window("event_time", "1 minute"), "currency")
        .agg(
            count("*").alias("orders"),
            sum(col("quantity") * col("unit_price")).alias("revenue"),
        )
        .select(col("window.start").alias("minute"), "currency", "orders", "revenue")
    )


def read_orders() -> DataFrame:
    """Every record of the topic is an order, written as JSON."""
    records = (
        spark.readStream.format("tidelog")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
    )
    order = from_json(col("value").cast("string"), ORDER).alias("order")
    return records.select("partition", "offset", order).select("partition", "offset", "order.*")


@dp.table
def orders() -> DataFrame:
    """Every order, once. Each run appends what came since the last one."""
    return read_orders()


@dp.materialized_view
def revenue_now() -> DataFrame:
    """Computed anew in each run, the minutes that are not over included."""
    return per_minute(spark.read.table("orders"))


dp.create_sink(
    "revenue_topic",
    "tidelog",
    {
        "kafka.bootstrap.servers": servers,
        "topic": "revenue",
        "sinkId": "declarative-revenue",
    },
)


@dp.append_flow(target="revenue_topic")
def revenue_to_topic() -> DataFrame:
    """Minutes that are over, each once. From the topic: Spark 4.3 does not take a watermark of
    another table of the pipeline."""
    revenue = per_minute(read_orders().withWatermark("event_time", "2 minutes"))
    return revenue.select(col("currency").alias("key"), to_json(struct("*")).alias("value"))
