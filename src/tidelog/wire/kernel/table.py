"""A table of record batches: one row per batch, made from their headers alone.

Enough for an audit of replicas, for planning a read, and for taking batches as they are. What
the records inside say is the business of `wire.arrow`.
"""

from typing import NamedTuple

from tidelog._native.contract import FIELDS
from tidelog.wire.kernel import choice
from tidelog.wire.records import Buffer, InvalidBatch, read_header

CRC_UNCHECKED = -1
"""In the column `crc_ok`: nobody looked."""


class BatchTable(NamedTuple):
    """Columns of int64 over the whole batches of a region, each a view that can be indexed."""

    rows: int
    end: int
    """Where the last whole batch ends: a torn one may follow."""
    cells: bytearray
    """All columns, one after the other."""

    def column(self, name: str) -> memoryview:
        """One column by its name in `contract.FIELDS`."""
        return memoryview(self.column_bytes(name)).cast("q")

    def column_bytes(self, name: str) -> memoryview:
        field = FIELDS.index(name)
        width = 8 * self.rows
        return memoryview(self.cells)[field * width : (field + 1) * width]


def scan_batches(region: Buffer, *, check_crc: bool = True) -> BatchTable:
    """Every whole batch of a region. A torn tail ends the table, garbage raises InvalidBatch.

    A wrong checksum raises nothing: it is a row whose `crc_ok` is 0. A row takes 112 bytes, so
    segments of very small batches are better read in regions of some MiB.
    """
    table, garbage = scan_region(region, check_crc=check_crc)
    if garbage:
        read_header(region, table.end)
        raise InvalidBatch(f"the bytes at position {table.end} are no record batch")
    return table


def scan_region(region: Buffer, *, check_crc: bool = True) -> tuple[BatchTable, bool]:
    """The same for who wants the batches before garbage too: whether it follows them."""
    cells, count, end, garbage = choice.kernel.decoding.scan(as_bytes(region), check_crc)
    return BatchTable(count, end, cells), garbage


def as_bytes(region: Buffer) -> Buffer:
    """The same memory as unsigned bytes, which is all that the compiled kernel takes."""
    if isinstance(region, memoryview) and region.format != "B":
        return region.cast("B")
    return region
