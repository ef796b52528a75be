"""Producer snapshots: the producer state up to an offset, so that not all must be replayed.

    int16 version 1, uint32 CRC-32C of what follows it, int32 count, then rows of 46 bytes:
    id int64, epoch int16, last sequence int32, last offset int64, offset delta int32,
    timestamp int64, coordinator epoch int32, first offset of the open transaction int64 (-1)

Kafka writes one row per producer, with its last batch, and so forgets the ones before it: a
retry that was in flight during a restart is then out of order instead of a duplicate. We write
one row per remembered batch, oldest first. Kafka takes the last row of a producer for the
truth, so it reads our files as its own, and we read its files.

A snapshot is a shortcut: a bad one is deleted and the state replayed from an older one, or
from the log's start.
"""

import struct
from typing import NamedTuple

import fastcrc

from tidelog.core.replication.producers import (
    LARGEST_SEQUENCE,
    AppendedBatch,
    ProducerEntry,
)
from tidelog.core.types import NO_OFFSET
from tidelog.host.ports import Disk
from tidelog.storage.atomic_file import read_file, write
from tidelog.storage.errors import CorruptFile

SUFFIX = ".snapshot"
VERSION = 1
NO_SEQUENCE = -1

_HEADER = struct.Struct(">hIi")
_CRC_END = 6
_ROW = struct.Struct(">qhiqiqiq")
assert _ROW.size == 46, _ROW.size


def write_snapshot(disk: Disk, path: str, entries: list[ProducerEntry]) -> None:
    """Not synced."""
    write(disk, path, encode(entries))


def read_snapshot(disk: Disk, path: str) -> list[ProducerEntry]:
    content = read_file(disk, path)
    if content is None:
        raise CorruptFile(path, "byte 0", "the file is gone")
    return decode(path, content)


def encode(entries: list[ProducerEntry]) -> bytes:
    rows = [row for entry in entries for row in _rows(entry)]
    body = struct.pack(">i", len(rows)) + b"".join(_ROW.pack(*row) for row in rows)
    return struct.pack(">hI", VERSION, fastcrc.crc32.iscsi(body)) + body


def decode(path: str, content: bytes) -> list[ProducerEntry]:
    if len(content) < _HEADER.size:
        raise CorruptFile(path, f"byte {len(content)}", "shorter than its header")
    version, crc, count = _HEADER.unpack_from(content)
    if version != VERSION:
        raise CorruptFile(path, "byte 0", f"version {version}, only {VERSION} is known")
    if crc != fastcrc.crc32.iscsi(content[_CRC_END:]):
        raise CorruptFile(path, "byte 2", "the checksum does not match")
    size = _HEADER.size + count * _ROW.size
    if count < 0 or len(content) != size:
        raise CorruptFile(path, "byte 6", f"{count} rows in {len(content)} bytes")
    entries: dict[int, ProducerEntry] = {}
    for row in _ROW.iter_unpack(content[_HEADER.size :]):
        _add_row(entries, Row._make(row))
    return list(entries.values())


class Row(NamedTuple):
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


def _rows(entry: ProducerEntry) -> list[Row]:
    """One per remembered batch; one without a batch for a producer that has none."""
    last_row = Row(
        entry.producer_id,
        entry.producer_epoch,
        NO_SEQUENCE,
        NO_OFFSET,
        0,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.current_txn_first_offset,
    )
    if not entry.batches:
        return [last_row]
    rows = [
        last_row._replace(
            last_sequence=batch.last_sequence,
            last_offset=batch.last_offset,
            offset_delta=batch.last_offset - batch.first_offset,
            timestamp=batch.timestamp,
        )
        for batch in entry.batches
    ]
    rows[-1] = rows[-1]._replace(timestamp=entry.last_timestamp)
    return rows


def _add_row(entries: dict[int, ProducerEntry], row: Row) -> None:
    entry = entries.get(row.producer_id)
    if entry is None or entry.producer_epoch != row.producer_epoch:
        entry = entries[row.producer_id] = ProducerEntry(row.producer_id, row.producer_epoch)
    entry.last_timestamp = row.timestamp
    entry.coordinator_epoch = row.coordinator_epoch
    entry.current_txn_first_offset = row.current_txn_first_offset
    if row.last_offset == NO_OFFSET:
        return
    first_sequence = row.last_sequence - row.offset_delta
    if first_sequence < 0:  # sequences wrap from 2^31 - 1 to 0
        first_sequence += LARGEST_SEQUENCE + 1
    first_offset = row.last_offset - row.offset_delta
    entry.batches.append(
        AppendedBatch(
            first_sequence, row.last_sequence, first_offset, row.last_offset, row.timestamp
        )
    )
