"""The columns of a source, and what a schema of the user's makes of them.

Spark ships every column of a source, whatever the query selects. A schema that names fewer, or
in another order, is how a query says what it needs.
"""

from collections.abc import Mapping

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidelog.spark.failure import InvalidOption
from tidelog.spark.options import Options

HEADERS_TYPE = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))
RECORD_TYPES: Mapping[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS_TYPE,
}
HEADERS = "headers"


def record_columns(*, headers: bool) -> StructType:
    """All columns, in the order of the stock connector."""
    return StructType(
        [
            StructField(name, kind)
            for name, kind in RECORD_TYPES.items()
            if headers or name != HEADERS
        ]
    )


def default_schema(values: Mapping[str, str]) -> StructType:
    """Where the user gives no schema."""
    return record_columns(headers=Options(values).truth("includeHeaders", False))


def check_columns(schema: StructType) -> tuple[str, ...]:
    """The names of a schema that is part of ours; InvalidOption if it is not."""
    for field in schema.fields:
        ours = RECORD_TYPES.get(field.name)
        if ours is None:
            raise InvalidOption(
                f"the schema has a column {field.name}, and records have none",
                f"there are {', '.join(RECORD_TYPES)}; for fields of values say valueFormat=json",
            )
        if field.dataType.simpleString() != ours.simpleString():
            raise InvalidOption(
                f"the schema says that {field.name} is {field.dataType.simpleString()}",
                f"it is {ours.simpleString()}; cast it in the query",
            )
        if not field.nullable:
            raise InvalidOption(
                f"the schema says that {field.name} is NOT NULL", "every column may be null"
            )
    if not schema.fields:
        raise InvalidOption("the schema has no columns", f"name some of {', '.join(RECORD_TYPES)}")
    return tuple(field.name for field in schema.fields)
