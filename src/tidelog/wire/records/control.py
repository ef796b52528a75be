"""Control batches: words of the system in the log, invisible to applications.

A control record consumes an offset and says in its key what it is (KIP-98 for transactions,
KIP-595 and KIP-630 for the metadata log). A batch has one of them, except at the beginning of
a snapshot of the metadata log, where several are one statement.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from tidelog.wire.records import compression
from tidelog.wire.records.body import Record, build_batch, encode, iter_records
from tidelog.wire.records.errors import InvalidRecord
from tidelog.wire.records.header import (
    CONTROL_BIT,
    HEADER_SIZE,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Buffer,
    read_header,
)

NOT_CONTROL: Final = -1
ABORT: Final = 0
COMMIT: Final = 1
LEADER_CHANGE: Final = 2
SNAPSHOT_HEADER: Final = 3
SNAPSHOT_FOOTER: Final = 4
KRAFT_VERSION: Final = 5
KRAFT_VOTERS: Final = 6

_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")
_VERSION = 0


class EndTxnMarker(NamedTuple):
    """The end of a producer's transaction in one partition."""

    commit: bool
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


def encode_control(
    control_type: int,
    value: bytes = b"",
    *,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    transactional: bool = False,
) -> bytearray:
    """A control batch of this type; what the value means is the type's business."""
    batch = encode(
        _control_records([(control_type, value)], timestamp_ms, base_offset),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=transactional,
    )
    return _marked_as_control(batch)


def encode_controls(
    controls: Sequence[tuple[int, bytes]],
    *,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """A batch of control records, each given by its type and its value."""
    return _marked_as_control(
        encode(
            _control_records(controls, timestamp_ms, base_offset),
            base_offset=base_offset,
            leader_epoch=leader_epoch,
        )
    )


def _control_records(
    controls: Sequence[tuple[int, bytes]], timestamp_ms: int, base_offset: int
) -> list[Record]:
    assert all(0 <= kind < 2**15 for kind, _ in controls), [kind for kind, _ in controls]
    return [
        Record(offset, timestamp_ms, _KEY.pack(_VERSION, kind), value)
        for offset, (kind, value) in enumerate(controls, base_offset)
    ]


def _marked_as_control(batch: bytearray) -> bytearray:
    header = read_header(batch)
    assert header.codec == compression.NONE, header.codec
    return build_batch(
        header._replace(attributes=header.attributes | CONTROL_BIT), batch[HEADER_SIZE:]
    )


def encode_end_txn_marker(
    marker: EndTxnMarker, *, timestamp_ms: int, base_offset: int = 0, leader_epoch: int = -1
) -> bytearray:
    """The batch that ends a transaction in a partition."""
    return encode_control(
        COMMIT if marker.commit else ABORT,
        _MARKER_VALUE.pack(_VERSION, marker.coordinator_epoch),
        timestamp_ms=timestamp_ms,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transactional=True,
    )


def control_type(batch: Buffer, position: int = 0) -> int:
    """What kind of control batch this is, `NOT_CONTROL` if it carries records of clients.

    Also `NOT_CONTROL` when compaction took the only record of a control batch.
    """
    record = _control_record(batch, position)
    return NOT_CONTROL if record is None else control_type_of(record)


def end_txn_marker(batch: Buffer, position: int = 0) -> EndTxnMarker | None:
    """The marker in this batch, None if it is anything else."""
    record = _control_record(batch, position)
    if record is None:
        return None
    kind = control_type_of(record)
    if kind not in (ABORT, COMMIT):
        return None
    # Later versions may append fields, so only a shorter value is wrong.
    if record.value is None or len(record.value) < _MARKER_VALUE.size:
        raise InvalidRecord("the value of a transaction marker is too short")
    _, coordinator_epoch = _MARKER_VALUE.unpack_from(record.value)
    header = read_header(batch, position)
    return EndTxnMarker(
        kind == COMMIT, header.producer_id, header.producer_epoch, coordinator_epoch
    )


def _control_record(batch: Buffer, position: int) -> Record | None:
    header = read_header(batch, position)
    if not header.is_control:
        return None
    return next(iter_records(batch, position, header), None)


def control_type_of(record: Record) -> int:
    """What a record of a control batch is."""
    if record.key is None or len(record.key) < _KEY.size:
        raise InvalidRecord("the key of a control record is too short")
    version, kind = _KEY.unpack_from(record.key)
    if version < 0 or kind < 0:
        raise InvalidRecord(f"control record of version {version} and type {kind}")
    return int(kind)
