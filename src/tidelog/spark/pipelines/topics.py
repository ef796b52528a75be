"""Topics as a stream of rows, the way our own pipelines read them."""

from typing import TYPE_CHECKING, NamedTuple

from tidelog.spark.failure import InvalidOption
from tidelog.spark.security_options import Access

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

EARLIEST, LATEST = "earliest", "latest"

# Without the value, which is either bytes or has fields of the user's.
OTHER_COLUMNS = (
    "key BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
BAD_COLUMNS = "badReason STRING, badValue BINARY"


class SchemaValues(NamedTuple):
    """Values that begin with the id of a schema."""

    registry: str
    form: str
    """avro, protobuf or json-schema."""
    type: "pa.DataType"
    """Of the column that they become."""


class Topics(NamedTuple):
    """Which topics of which cluster, and from where on."""

    access: Access
    names: tuple[str, ...]
    starting: str = EARLIEST
    records_per_batch: int | None = None
    source_id: str | None = None
    """Under which the cluster keeps where the first batch began."""
    json_fields: str | None = None
    """Values are JSON with these fields (DDL)."""
    keeps_bad: bool = False
    """A value that cannot be decoded is told of in `badReason` and `badValue`, instead of ending
    the query."""
    values: SchemaValues | None = None
    pattern: str | None = None
    """In place of names: all that match, also those that come later."""

    def options(self) -> dict[str, str]:
        if self.pattern is not None:
            wanted = {"subscribePattern": self.pattern}
        else:
            wanted = {"subscribe": ",".join(self.names)}
        return {
            **self.access.options(),
            **wanted,
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
        reader = reader.option("valueFormat", "json")
        fields = as_fields(topics.json_fields)
        reader = reader.schema(f"value STRUCT<{fields}>, {other_columns(topics)}")
    elif topics.values is not None:
        from pyspark.sql.pandas.types import from_arrow_type  # noqa: PLC0415 - pyspark is an extra
        from pyspark.sql.types import StructField, StructType  # noqa: PLC0415

        value = StructField("value", from_arrow_type(topics.values.type))
        others = StructType.fromDDL(other_columns(topics))
        assert isinstance(others, StructType), others
        reader = reader.option("valueFormat", topics.values.form)
        reader = reader.option("registry", topics.values.registry)
        reader = reader.schema(StructType([value, *others.fields]))
    # A null in an archive would be a value that nobody can have back.
    return reader.option("mode", "keep" if topics.keeps_bad else "failfast").load()


def other_columns(topics: Topics) -> str:
    """All but the value, in Spark's words."""
    return f"{OTHER_COLUMNS}, {BAD_COLUMNS}" if topics.keeps_bad else OTHER_COLUMNS


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


def debezium_fields(ddl: str) -> str:
    """The fields of change events whose rows have these (DDL), with a schema around or without."""
    from tidelog.spark.changes.positions import SOURCE  # noqa: PLC0415 - pyarrow is an extra

    kinds = {"string": "STRING", "int64": "BIGINT"}
    source = ", ".join(f"{each.name}: {kinds[str(each.type)]}" for each in SOURCE)
    row = as_fields(ddl)
    parts = {"before": f"STRUCT<{row}>", "after": f"STRUCT<{row}>", "op": "STRING"}
    parts["source"] = f"STRUCT<{source}>"
    event = ", ".join(f"{name}: {kind}" for name, kind in parts.items())
    plain = ", ".join(f"{name} {kind}" for name, kind in parts.items())
    return f"{plain}, payload STRUCT<{event}>"
