"""Producer snapshots: the producer state up to an offset, so that not all must be replayed.

    int16 version 1, uint32 CRC-32C of what follows it, int32 count, then per producer 46 bytes:
    id int64, epoch int16, last sequence int32, last offset int64, offset delta int32,
    timestamp int64, coordinator epoch int32, first offset of the open transaction int64 (-1)

Only the last batch per producer is kept (replication.md §5). A snapshot is a shortcut: a bad
one is deleted and the state replayed from an older one, or from the log's start.
"""

import struct

import fastcrc

from tidelog.core.replication.producers import (
    LARGEST_SEQUENCE,
    AppendedBatch,
    ProducerEntry,
)
from tidelog.core.types import NO_OFFSET
from tidelog.host.ports import Disk
from tidelog.storage.atomic_file import read_file, write_and_sync
from tidelog.storage.errors import CorruptFile

SUFFIX = ".snapshot"
VERSION = 1
NO_SEQUENCE = -1

_HEADER = struct.Struct(">hIi")
_CRC_END = 6
_ENTRY = struct.Struct(">qhiqiqiq")
assert _ENTRY.size == 46, _ENTRY.size


def write_snapshot(disk: Disk, path: str, entries: list[ProducerEntry]) -> None:
    """Synced, so that a snapshot which survives by name also survives by content; the name
    itself may get lost, then an older one serves."""
    write_and_sync(disk, path, encode(entries))


def read_snapshot(disk: Disk, path: str) -> list[ProducerEntry]:
    content = read_file(disk, path)
    if content is None:
        raise CorruptFile(path, "byte 0", "the file is gone")
    return decode(path, content)


def encode(entries: list[ProducerEntry]) -> bytes:
    body = struct.pack(">i", len(entries)) + b"".join(map(_encode_entry, entries))
    return struct.pack(">hI", VERSION, fastcrc.crc32.iscsi(body)) + body


def decode(path: str, content: bytes) -> list[ProducerEntry]:
    if len(content) < _HEADER.size:
        raise CorruptFile(path, f"byte {len(content)}", "shorter than its header")
    version, crc, count = _HEADER.unpack_from(content)
    if version != VERSION:
        raise CorruptFile(path, "byte 0", f"version {version}, only {VERSION} is known")
    if crc != fastcrc.crc32.iscsi(content[_CRC_END:]):
        raise CorruptFile(path, "byte 2", "the checksum does not match")
    size = _HEADER.size + count * _ENTRY.size
    if count < 0 or len(content) != size:
        raise CorruptFile(path, "byte 6", f"{count} producers in {len(content)} bytes")
    return [_decode_entry(fields) for fields in _ENTRY.iter_unpack(content[_HEADER.size :])]


def _encode_entry(entry: ProducerEntry) -> bytes:
    last = entry.batches[-1] if entry.batches else None
    return _ENTRY.pack(
        entry.producer_id,
        entry.producer_epoch,
        last.last_sequence if last else NO_SEQUENCE,
        last.last_offset if last else NO_OFFSET,
        last.last_offset - last.first_offset if last else 0,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.current_txn_first_offset,
    )


def _decode_entry(fields: tuple[int, ...]) -> ProducerEntry:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator, first = fields
    entry = ProducerEntry(producer_id, epoch)
    entry.last_timestamp = timestamp
    entry.coordinator_epoch = coordinator
    entry.current_txn_first_offset = first
    if last_offset != NO_OFFSET:
        first_sequence = last_sequence - delta
        if first_sequence < 0:  # sequences wrap from 2^31 - 1 to 0
            first_sequence += LARGEST_SEQUENCE + 1
        entry.batches.append(
            AppendedBatch(
                first_sequence, last_sequence, last_offset - delta, last_offset, timestamp
            )
        )
    return entry
