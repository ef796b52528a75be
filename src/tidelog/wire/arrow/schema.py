"""The columns of records, exactly as Spark wants them (spark.md §2.1)."""

from typing import Final

import pyarrow as pa

HEADERS_TYPE: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

COLUMN_TYPES: Final = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS_TYPE,
}
RECORD_COLUMNS: Final = tuple(name for name in COLUMN_TYPES if name != "headers")
"""What the stock connector gives without `includeHeaders`, in its order."""
RECORD_COLUMNS_WITH_HEADERS: Final = tuple(COLUMN_TYPES)


class InvalidColumns(Exception):  # noqa: N818 - says what a table is, not that code failed
    """Columns that no record can be made of, or that do not exist; the message says which."""


def record_schema(columns: tuple[str, ...] = RECORD_COLUMNS) -> pa.Schema:
    """The Arrow schema of these columns, in this order."""
    unknown = [name for name in columns if name not in COLUMN_TYPES]
    if unknown:
        raise InvalidColumns(
            f"records have no column {unknown[0]}; there are {', '.join(COLUMN_TYPES)}"
        )
    return pa.schema([(name, COLUMN_TYPES[name]) for name in columns])
