"""Record batches as Arrow columns and back. Needs pyarrow (`pip install tidelog[spark]`).

    table = scan_batches(region)
    for piece in decode_columns(region, table, Selection("orders", 0)):
        ...
    batches = encode_batches(piece, Partitioner(8), timestamp_ms=now_ms)

Columns, types and reasons: spark.md §2.1 and §3. Without pyarrow, `wire.kernel` still scans.
"""

from tidelog.wire.arrow.reading import (
    PIECE_BYTES,
    AbortedRange,
    Selection,
    decode_columns,
    table_columns,
)
from tidelog.wire.arrow.schema import (
    RECORD_COLUMNS,
    RECORD_COLUMNS_WITH_HEADERS,
    InvalidColumns,
    record_schema,
)
from tidelog.wire.arrow.writing import BatchSettings, Partitioner, encode_batches
from tidelog.wire.kernel import BatchTable, implementation, restamp, scan_batches

__all__ = [
    "PIECE_BYTES",
    "RECORD_COLUMNS",
    "RECORD_COLUMNS_WITH_HEADERS",
    "AbortedRange",
    "BatchSettings",
    "BatchTable",
    "InvalidColumns",
    "Partitioner",
    "Selection",
    "decode_columns",
    "encode_batches",
    "implementation",
    "record_schema",
    "restamp",
    "scan_batches",
    "table_columns",
]
