"""Topics as a stream of rows, the way our own pipelines read them."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EARLIEST, LATEST = "earliest", "latest"


class Topics(NamedTuple):
    """Which topics of which cluster, and from where on."""

    bootstrap: str
    names: tuple[str, ...]
    starting: str = EARLIEST
    records_per_batch: int | None = None
    source_id: str | None = None
    """Under which the cluster keeps where the first batch began."""

    def options(self) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.bootstrap,
            "subscribe": ",".join(self.names),
            "includeHeaders": "true",
        }


def stream_of(spark: "SparkSession", topics: Topics) -> "DataFrame":
    """Committed records only, with their headers."""
    reader = spark.readStream.format("tidelog").options(**topics.options())
    reader = reader.option("startingOffsets", topics.starting)
    if topics.records_per_batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", str(topics.records_per_batch))
    if topics.source_id is not None:
        reader = reader.option("sourceId", topics.source_id)
    return reader.load()
