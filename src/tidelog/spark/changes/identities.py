"""Which row a change is about: its topic and its key as bytes, the same in batches and in files."""

import zlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.spark.changes.words import TOPIC, ChangeRules

RECORD_KEY = "key"
AFTER_TOPIC, BETWEEN = pa.scalar(b"\0"), pa.scalar(b"\x1f")
NUMBERS = 1 << 32


def key_columns(rules: ChangeRules) -> tuple[str, ...]:
    """The columns of a row that identify it within its topic."""
    return rules.key or (RECORD_KEY,)


def identities(topic: pa.Array, columns: list[pa.Array]) -> pa.BinaryArray:
    """Null where a part of the key is."""
    parts = [_bytes(each) for each in columns]
    key = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, BETWEEN)
    return pc.binary_join_element_wise(_bytes(topic), key, AFTER_TOPIC)


def identities_of(rows: pa.RecordBatch, rules: ChangeRules) -> pa.BinaryArray:
    """Of rows of a table."""
    return identities(rows[TOPIC], [rows[name] for name in key_columns(rules)])


def buckets_of(found: pa.BinaryArray, buckets: int) -> pa.Int32Array:
    """Where rows belong. It may never change: a row would be in two places."""
    numbers = [0 if each is None else zlib.crc32(each) % buckets for each in found.to_pylist()]
    return pa.array(np.asarray(numbers, dtype=np.int32))


def _bytes(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return column.cast(pa.binary())
    return column.cast(pa.string()).cast(pa.binary())
