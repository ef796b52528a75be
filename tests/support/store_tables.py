"""Tables that tests write in object stores, batch by batch, without a query."""

import pyarrow as pa

from tidelog.spark.tables.files import write_files
from tidelog.spark.tables.forms import open_table
from tidelog.spark.tables.layouts import layout_of
from tidelog.spark.tables.words import BatchFiles

SCHEMA = pa.schema([("offset", pa.int64()), ("topic", pa.string()), ("key", pa.binary())])


def rows(first, end):
    values = range(first, end)
    topics = [["orders", "payments"][each % 2] for each in values]
    return pa.record_batch([list(values), topics, [b"k"] * len(topics)], schema=SCHEMA)


def write(spec, batch, *batches):
    """As one attempt of a task does, and the driver after it."""
    files = write_files(layout_of(spec, batch), SCHEMA, "part", batches)
    return open_table(spec).commit(SCHEMA, BatchFiles(batch, files))
