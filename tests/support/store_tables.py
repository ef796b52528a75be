"""Tables and checkpoints that tests write in object stores, without a query."""

import pyarrow as pa
import pytest

from tidelog.spark.checkpoint_store.files import CheckpointFiles
from tidelog.spark.tables.files import write_files
from tidelog.spark.tables.forms import open_table
from tidelog.spark.tables.layouts import layout_of
from tidelog.spark.tables.stores import Store
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


def check_checkpoint_files(place: Store) -> None:
    """A checkpoint keeps what Spark relies on: a file that is there is not written over."""
    files, others = CheckpointFiles(place), CheckpointFiles(place)
    files.write("offsets/0.mine.tmp", b"up to 10", overwrite=True)
    others.write("offsets/0.theirs.tmp", b"up to 20", overwrite=True)
    files.rename("offsets/0.mine.tmp", "offsets/0", overwrite=False)
    with pytest.raises(FileExistsError):
        others.rename("offsets/0.theirs.tmp", "offsets/0", overwrite=False)
    files.write("offsets/1", b"up to 30", overwrite=False)
    assert others.read("offsets/0") == b"up to 10"
    assert [(each.name, each.size_bytes) for each in others.listed("offsets")] == [
        ("0", 8),
        ("1", 8),
    ]
    assert [each.name for each in others.listed("")] == ["offsets"]
    assert others.remove("offsets", recursive=True)
    with pytest.raises(FileNotFoundError):
        files.status("offsets/0")
