"""Records without headers, on their way from Spark to Python.

After each row Spark asks how large its Arrow batch is. A column of lists then fills in its offsets
again from the last row that is not null (`ListVector.setValueCount`), so a batch of n rows whose
headers are null costs n² steps: two thirds of what a profiler saw of Java in an archive of small
records. A record never has an empty list, so on the way it can stand for null.
"""

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.spark.columns import HEADERS, HEADERS_TYPE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def with_empty_headers(rows: "DataFrame", name: str = HEADERS) -> "DataFrame":
    """An empty list where headers are null; the column stays one that may be null."""
    from pyspark.sql.functions import array, col, when  # noqa: PLC0415 - pyspark is an extra

    if name not in rows.columns or rows.schema[name].dataType != HEADERS_TYPE:  # not ours
        return rows
    kept = when(col(name).isNotNull(), col(name)).otherwise(array().cast(HEADERS_TYPE))
    return rows.withColumn(name, kept)


def with_null_headers(rows: pa.RecordBatch) -> pa.RecordBatch:
    """As records have it: null where the list is empty."""
    place = rows.schema.get_field_index(HEADERS)
    if place < 0 or not pa.types.is_list(rows.schema.field(place).type):
        return rows
    field, headers = rows.schema.field(place), rows.column(place)
    is_empty = pc.equal(pc.list_value_length(headers), 0)
    nothing = pa.nulls(len(headers), field.type)
    return rows.set_column(place, field, pc.if_else(is_empty, nothing, headers))
