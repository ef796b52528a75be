"""The sales as the topic, the table and the topic `revenue` have them at the end."""

from typing import TYPE_CHECKING, Any

from tidelog.cli.demo.book import Sale
from tidelog.cli.demo.verdict import WindowValue
from tidelog.spark.pipelines.revenue import orders_of
from tidelog.spark.tables.forms import read_table
from tidelog.spark.tables.words import DELTA, TableSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REVENUE = "minute timestamp, currency string, orders bigint, revenue decimal(30,2)"
SALE = (
    "partition",
    "offset",
    "order_id",
    "cast(unix_micros(event_time) div 60000000 as bigint) as minute",
    "currency",
    "cast(quantity * unit_price * 100 as bigint) as cents",
)


def in_topic(spark: "SparkSession", servers: str) -> list[Sale]:
    """Every committed order, read through the brokers."""
    return _sales(orders_of(_records(spark, servers, "orders")))


def in_table(spark: "SparkSession", path: str) -> list[Sale]:
    """Every order in the files that the table consists of."""
    rows = read_table(spark, TableSpec(path, DELTA))
    return [] if rows is None else _sales(rows)


def in_revenue(spark: "SparkSession", servers: str) -> list[WindowValue]:
    """Every record of the topic: a window that was written twice is there twice."""
    from pyspark.sql.functions import col, from_json

    value = from_json(col("value").cast("string"), REVENUE).alias("value")
    rows = _records(spark, servers, "revenue").select(value).select("value.*")
    found = rows.selectExpr(
        "cast(unix_micros(minute) div 60000000 as bigint) as minute",
        "currency",
        "orders",
        "cast(revenue * 100 as bigint) as cents",
    )
    return [WindowValue(*row.values()) for row in _collected(found)]


def _records(spark: "SparkSession", servers: str, topic: str) -> "DataFrame":
    return (
        spark.read.format("tidelog")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .load()
    )


def _sales(orders: "DataFrame") -> list[Sale]:
    return [Sale(*row.values()) for row in _collected(orders.selectExpr(*SALE))]


def _collected(rows: "DataFrame") -> list[dict[str, Any]]:
    collected: list[dict[str, Any]] = rows.toArrow().to_pylist()
    return collected
