"""What a table has to remember and no reader has to see, beside the data files it belongs to.

A file of the table that is named so-and-so has its memory under the same name in a directory that
readers skip. It is written before the table is told of the data file, and counts as soon as the
table names that one: both are in the same commit.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.spark.changes.latest import Places, nowhere, places_of
from tidelog.spark.changes.words import IDENTITY, KIND, OFFSET, PARTITION, POSITION
from tidelog.spark.tables.files import open_stored, write_stored
from tidelog.spark.tables.layouts import memory_of
from tidelog.spark.tables.words import TableFile, TableSpec

WAS_DELETED, PASSED, TRUNCATED = "deleted", "passed", "truncated"
Floors = Mapping[bytes, tuple[str, int, int]]
"""Where each topic was truncated last."""
AT_MS = "at_ms"
SCHEMA = pa.schema(
    [
        (IDENTITY, pa.binary()),
        (KIND, pa.string()),
        (POSITION, pa.string()),
        (PARTITION, pa.int32()),
        (OFFSET, pa.int64()),
        (AT_MS, pa.int64()),
    ]
)
"""Of a truncation the identity is the topic alone."""


def remembered(spec: TableSpec, files: Iterable[TableFile]) -> pa.Table:
    """Of these files; empty where a stranger has written them."""
    found = [SCHEMA.empty_table()]
    for each in files:
        try:
            with open_stored(memory_of(spec, each.name)) as source:
                found.append(pq.read_table(source, schema=SCHEMA))
        except FileNotFoundError:
            continue  # nothing to remember is no file
    return pa.concat_tables(found)


def remember(spec: TableSpec, name: str, memory: pa.Table) -> None:
    """Durable when it returns. Nothing to remember is no file."""
    if memory.num_rows:
        write_stored(memory_of(spec, name), memory)


def entries(identity: pa.Array, kind: str, places: Places, at_ms: int) -> pa.Table:
    count = len(identity)
    columns = [
        identity.cast(pa.binary()),
        pa.array([kind] * count, pa.string()),
        pa.array(list(places.position), pa.string()),
        pa.array(places.partition, pa.int32()),
        pa.array(places.offset, pa.int64()),
        pa.array(np.full(count, at_ms, np.int64)),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def of_kind(memory: pa.Table, kind: str) -> pa.Table:
    return memory.filter(pc.equal(memory[KIND], kind))


def floors_of(memory: pa.Table, truncations: pa.Table) -> Floors:
    """Where each topic was truncated last. `truncations` are changes."""
    found: dict[bytes, tuple[str, int, int]] = {}
    for rows in (of_kind(memory, TRUNCATED), truncations):
        place = places_of(rows)
        topics = [bytes(each).partition(b"\0")[0] for each in rows[IDENTITY].to_pylist()]
        for topic, *where in zip(topics, *place, strict=True):
            at = (str(where[0]), int(where[1]), int(where[2]))
            found[topic] = max(found.get(topic, at), at)
    return found


def floor_for(identity: pa.Array, floors: Floors) -> Places:
    """Of each identity that of its topic."""
    made = nowhere(len(identity))
    if floors:
        topics = [bytes(each).partition(b"\0")[0] for each in identity.to_pylist()]
        for at, topic in enumerate(topics):
            if topic in floors:
                made.position[at], made.partition[at], made.offset[at] = floors[topic]
    return made
