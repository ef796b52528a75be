"""The checks of `tidelog audit history`, on Spark."""

import json
from typing import TYPE_CHECKING

from tidelog.audit.history.findings import Findings
from tidelog.audit.history.read_back import Bounds, NotDrained, log_starts, until_decided
from tidelog.audit.history.rows import BadHistory
from tidelog.cli.asking import Asking
from tidelog.cli.audit.undecided import undecided
from tidelog.cli.pipeline.topic_check import access_of
from tidelog.cli.spark_options import essence, spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidelog.cli.audit.history import HistoryOptions

APPLICATION = "tidelog audit history"


def judged_on_spark(options: "HistoryOptions") -> Findings:
    assert options.spark_url is not None, options
    with spark_session(APPLICATION, options.spark_url, options.conf) as spark:
        return judged_with(spark, options)


def judged_with(spark: "SparkSession", options: "HistoryOptions") -> Findings:
    """The same on a session that is there."""
    from tidelog.audit.history.on_spark import as_history, as_read_back, check_on_spark

    history = as_history(_table(spark, options.path), options.path)
    if options.read_back is not None:
        found = as_read_back(_table(spark, options.read_back), options.read_back)
        history = history.unionByName(found)
    elif (cluster := options.cluster) is not None:
        history = history.unionByName(_from_cluster(spark, history, cluster))
    return check_on_spark(history)


def _table(spark: "SparkSession", path: str) -> "DataFrame":
    from pyspark.errors import PySparkException

    try:
        return spark.read.parquet(path)
    except PySparkException as reason:
        raise BadHistory(f"{path} cannot be read as Parquet: {essence(reason)}") from None


def _from_cluster(spark: "SparkSession", history: "DataFrame", asking: Asking) -> "DataFrame":
    """Everything up to where the partitions end now, read by the tasks themselves."""
    from pyspark.sql import functions as f

    from tidelog.audit.history.on_spark import as_read_back, as_rows, value_number

    named = history.where(f.col("topic").isNotNull()).select("topic").distinct()
    topics = sorted(row["topic"] for row in named.collect())
    try:
        bounds = asking.run(
            lambda client: until_decided(client, topics, stall_ms=asking.timeout_ms)
        )
    except NotDrained as reason:
        raise undecided(reason) from None
    records = (
        spark.read.format("tidelog")
        .options(**access_of(asking).options())
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", _document(bounds, "start"))
        .option("endingOffsets", _document(bounds, "end"))
        .load()
        .select("topic", "partition", "offset", value_number(f.col("value")).alias("value"))
    )
    starts = as_rows(spark, log_starts(bounds))
    return as_read_back(records, str(asking.bootstrap)).unionByName(starts)


def _document(bounds: dict[tuple[str, int], Bounds], side: str) -> str:
    document: dict[str, dict[str, int]] = {}
    for (topic, partition), span in bounds.items():
        document.setdefault(topic, {})[str(partition)] = getattr(span, side)
    return json.dumps(document)
