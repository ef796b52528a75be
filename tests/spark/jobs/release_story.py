"""One story on whatever Spark this interpreter has: `release_story.py STEP CLUSTER IN OUT DIR`.

`read` reads a topic as a batch and as a stream, and prints what it found as JSON. `copy` is a
stream from one topic to the other, exactly once, until everything is there; it may be killed.
"""

import json
import sys

import pyspark

from tidelog.spark.session import open_session

PACE = 400


def read(spark, cluster, source, directory):
    options = {"kafka.bootstrap.servers": cluster, "subscribe": source}
    batch = spark.read.format("tidelog").options(**options).load()
    stream = (
        spark.readStream.format("tidelog")
        .options(**options, startingOffsets="earliest", maxOffsetsPerTrigger=str(PACE))
        .load()
        .selectExpr("CAST(value AS string) AS value")
    )
    query = (
        stream.writeStream.format("parquet")
        .option("path", f"{directory}/rows")
        .option("checkpointLocation", f"{directory}/read")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows = spark.read.parquet(f"{directory}/rows")
    return {
        "spark": pyspark.__version__,
        "batch": batch.count(),
        "batch_values": batch.select("value").distinct().count(),
        "stream": rows.count(),
        "stream_values": rows.distinct().count(),
    }


def copy(spark, cluster, source, target, directory):
    rows = (
        spark.readStream.format("tidelog")
        .option("kafka.bootstrap.servers", cluster)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", str(PACE))
        .load()
        .select("key", "value", "timestamp", "headers")
    )
    query = (
        rows.writeStream.format("tidelog")
        .option("kafka.bootstrap.servers", cluster)
        .option("topic", target)
        .option("checkpointLocation", f"{directory}/copy")
        .start()
    )
    query.processAllAvailable()
    query.stop()
    return {"spark": pyspark.__version__, "copied": True}


def main(step, cluster, source, target, directory):
    spark = open_session("release", spark_url="local[2]", conf={"spark.driver.memory": "1g"})
    spark.sparkContext.setLogLevel("OFF")
    if step == "read":
        print(json.dumps(read(spark, cluster, source, directory)))
    else:
        print(json.dumps(copy(spark, cluster, source, target, directory)))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
