"""Topics as a stream of rows, the way our own pipelines read them."""

from typing import TYPE_CHECKING, NamedTuple

from tidelog.spark.failure import InvalidOption
from tidelog.spark.security_options import Access

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EARLIEST, LATEST = "earliest", "latest"

# Without the value, which is either bytes or has fields of the user's.
OTHER_COLUMNS = (
    "key BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)


class Topics(NamedTuple):
    """Which topics of which cluster, and from where on."""

    access: Access
    names: tuple[str, ...]
    starting: str = EARLIEST
    records_per_batch: int | None = None
    source_id: str | None = None
    """Under which the cluster keeps where the first batch began."""
    json_fields: str | None = None
    """Values are JSON with these fields (DDL); a value that is not ends the query."""

    def options(self) -> dict[str, str]:
        return {
            **self.access.options(),
            "subscribe": ",".join(self.names),
            "includeHeaders": "true",
            "packPartitions": "true",
        }


def stream_of(spark: "SparkSession", topics: Topics) -> "DataFrame":
    """Committed records only, with their headers."""
    reader = spark.readStream.format("tidelog").options(**topics.options())
    reader = reader.option("startingOffsets", topics.starting)
    if topics.records_per_batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", str(topics.records_per_batch))
    if topics.source_id is not None:
        reader = reader.option("sourceId", topics.source_id)
    if topics.json_fields is not None:
        # A null in an archive would be a value that nobody can have back.
        reader = reader.option("valueFormat", "json").option("mode", "failfast")
        reader = reader.schema(f"value STRUCT<{as_fields(topics.json_fields)}>, {OTHER_COLUMNS}")
    return reader.load()


def as_fields(ddl: str) -> str:
    """The fields of a schema as those of a struct; InvalidOption if it is none."""
    from pyspark.errors import ParseException  # noqa: PLC0415 - pyspark is an extra
    from pyspark.sql.types import StructType  # noqa: PLC0415

    try:
        schema = StructType.fromDDL(ddl)
    except ParseException:
        schema = None
    if not isinstance(schema, StructType) or not schema.fields:
        raise InvalidOption(
            f"the schema {ddl!r} cannot be read", "give it as: id BIGINT, name STRING"
        )
    return ", ".join(f"`{each.name}`: {each.dataType.simpleString()}" for each in schema.fields)
