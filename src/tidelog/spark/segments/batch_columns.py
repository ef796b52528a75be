"""The columns of `view=batches`: one row per batch and replica."""

from pyspark.sql.types import (
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidelog.spark.failure import InvalidOption

BATCH_COLUMNS = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("broker", IntegerType()),
        StructField("baseOffset", LongType()),
        StructField("lastOffset", LongType()),
        StructField("leaderEpoch", IntegerType()),
        StructField("crc", LongType()),
        StructField("crcOk", BooleanType()),
        StructField("records", IntegerType()),
        StructField("sizeBytes", LongType()),
        StructField("attributes", IntegerType()),
        StructField("producerId", LongType()),
        StructField("maxTimestamp", TimestampType()),
        StructField("segment", LongType()),
        StructField("position", LongType()),
        StructField("problem", StringType()),
    ]
)
"""`position` counts from the beginning of the file of `segment`. A row with a `problem` is no
batch: from there on the file holds none, up to `lastOffset` or, where that is null, to its end."""


def check_batch_columns(schema: StructType) -> tuple[str, ...]:
    """The names of a schema that is part of ours; InvalidOption if it is not."""
    ours = {field.name: field.dataType.simpleString() for field in BATCH_COLUMNS}
    for field in schema.fields:
        if ours.get(field.name) != field.dataType.simpleString():
            raise InvalidOption(
                f"the schema says {field.name} {field.dataType.simpleString()}",
                f"batches have {', '.join(f'{name} {kind}' for name, kind in ours.items())}",
            )
    return tuple(field.name for field in schema.fields)
