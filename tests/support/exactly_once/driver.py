"""A driver of Spark in a process of its own: takes jobs as lines of JSON and answers in kind."""

import json
import sys

from pyspark.sql import functions

from support.exactly_once.faults import FORMAT, TABLE_FORMAT, FaultySource, FaultyTableSource
from tidelog.spark.failure import words_of
from tidelog.spark.session import open_session
from tidelog.spark.table_sink import spec_of
from tidelog.spark.tables.forms import read_table

ANSWER = "@@"
QUICK_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def tell(**answer):
    print(ANSWER + json.dumps(answer), flush=True)


def copy(spark, job):
    """From topic to topic until there is no more, in small micro-batches."""
    source = (
        spark.readStream.format("tidelog")
        .option("kafka.bootstrap.servers", job["bootstrap"])
        .option("subscribe", job["source"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", job["rows_per_batch"])
        .load()
    )
    rows = source.select("key", "value").repartition(job["tasks"])
    query = (
        sink_of(rows.writeStream, job)
        .option("checkpointLocation", job["checkpoint"])
        .option("faults", job["faults"])
        .option("markers", str(job["markers"]).lower())
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return {"batches": len(query.recentProgress)}


def sink_of(writer, job):
    if "table" in job:
        return writer.format(TABLE_FORMAT).options(**job["table"])
    given = {"kafka.bootstrap.servers": job["bootstrap"], "topic": job["sink"]}
    return writer.format(FORMAT).options(**given)


def rows_of(spark, job):
    if "table" in job:
        return read_table(spark, spec_of(job["table"]))
    reader = spark.read.format("tidelog").option("kafka.bootstrap.servers", job["bootstrap"])
    return reader.option("subscribe", job["sink"]).load()


def count(spark, job):
    """What a reader of the sink finds, through Spark."""
    found = (
        rows_of(spark, job)
        .selectExpr("CAST(CAST(value AS string) AS bigint) AS value")
        .agg(
            functions.count("value").alias("rows"),
            functions.count_distinct("value").alias("distinct"),
            functions.min("value").alias("least"),
            functions.max("value").alias("most"),
        )
        .first()
    )
    return found.asDict()


def answer_to(spark, job):
    work = copy if job["kind"] == "copy" else count
    try:
        return work(spark, job)
    except Exception as error:
        return {"failed": words_of(error) or str(error)[:2000]}


def main():
    spark = open_session(
        "exactly-once",
        spark_url=sys.argv[1],
        conf={
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": QUICK_START,
            "spark.executor.extraJavaOptions": QUICK_START,
            "spark.executor.memory": "600m",
            "spark.task.maxFailures": "8",
        },
    )
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(FaultySource)
    spark.dataSource.register(FaultyTableSource)
    tell(jvm=spark._jvm.java.lang.ProcessHandle.current().pid())
    for line in sys.stdin:
        tell(**answer_to(spark, json.loads(line)))
    spark.stop()


if __name__ == "__main__":
    main()
