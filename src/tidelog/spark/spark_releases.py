"""What the Spark that is installed can do, from 4.0 to 4.3 (docs/spark.md).

4.0 gives the rows of a stream's sink one by one and not as Arrow batches. Up to 4.1 a source is
not told where its query is, and has no limits.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark.sql import datasource

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
    from pyspark.sql.types import StructType

    StreamArrowWriter = DataSourceStreamArrowWriter
else:
    StreamArrowWriter = getattr(
        datasource, "DataSourceStreamArrowWriter", datasource.DataSourceStreamWriter
    )

HAS_READ_LIMITS = find_spec("pyspark.sql.streaming.datasource") is not None
_HAS_STREAM_ARROW_WRITER = hasattr(datasource, "DataSourceStreamArrowWriter")
_ROWS_TOGETHER = 10_000


def as_batches(rows: Iterator[Any], schema: "StructType") -> "Iterator[pa.RecordBatch]":
    """What a StreamArrowWriter is given, as Arrow, whatever this Spark gives."""
    return rows if _HAS_STREAM_ARROW_WRITER else _converted(rows, schema)


def _converted(rows: Iterator[Any], schema: "StructType") -> "Iterator[pa.RecordBatch]":
    from pyspark.sql.conversion import LocalDataToArrowConversion  # noqa: PLC0415 - only for 4.0

    while some := list(islice(rows, _ROWS_TOGETHER)):
        table = LocalDataToArrowConversion.convert(some, schema, False)
        yield from table.to_batches()
