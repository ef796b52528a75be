"""Two drivers that commit the same batches to one table at the same moments, as processes."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.synchronize import Barrier

import pyarrow as pa

from tidelog.spark.tables.files import write_files
from tidelog.spark.tables.forms import open_table
from tidelog.spark.tables.layouts import layout_of
from tidelog.spark.tables.words import BatchFiles, BatchId, TableSpec

SCHEMA = pa.schema([("offset", pa.int64())])
ROWS = 10
WAITS_S = 60

_together: Barrier


def _begin(together: Barrier) -> None:
    global _together  # noqa: PLW0603 - a barrier reaches a process of a pool in no other way
    _together = together


def _commit_all(spec: TableSpec, batches: int) -> list[bool]:
    table = open_table(spec)
    written = []
    for number in range(batches):
        batch = BatchId("q", number)
        rows = pa.record_batch([range(number * ROWS, (number + 1) * ROWS)], schema=SCHEMA)
        files = write_files(layout_of(spec, batch), SCHEMA, f"part-{os.getpid()}", [rows])
        _together.wait(WAITS_S)
        written.append(table.commit(SCHEMA, BatchFiles(batch, files)))
    return written


def commits_of_both(spec: TableSpec, batches: int) -> list[list[bool]]:
    """For each driver, which batches it was that brought them into the table."""
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(2)
    with ProcessPoolExecutor(2, context, initializer=_begin, initargs=(together,)) as drivers:
        asked = [drivers.submit(_commit_all, spec, batches) for _ in range(2)]
        return [each.result() for each in asked]
