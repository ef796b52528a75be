"""Batches of the simulator as Kafka's bytes, and back.

A record is one number; its value is the number and some padding, so that records differ in
size and writes cross the borders of sectors. Both directions are pure functions of their
input and are remembered: a batch is encoded by its leader and by every follower, and decoded
by everyone who reads it.
"""

from collections.abc import Iterable
from functools import lru_cache

from tidelog.core.coordination import Marker
from tidelog.sim.sim_log import SimBatch, marker_batch, marker_of
from tidelog.wire.records import (
    BatchHeader,
    EndTxnMarker,
    Record,
    decode,
    encode,
    encode_end_txn_marker,
    end_txn_marker,
    iter_batches,
    read_header,
    stamp,
)

NUMBER_BYTES = 8
LARGEST_PADDING = 160
LARGEST_BATCH_BYTES = 61 + 5 * (NUMBER_BYTES + LARGEST_PADDING + 16)
"""Producers of a plan send at most five records at a time."""

_REMEMBERED = 1 << 13


def encoded(batch: SimBatch) -> bytearray:
    """The bytes of this batch, stamped with its base offset and leader epoch."""
    if batch.is_control:
        data = encode_end_txn_marker(_marker(batch), timestamp_ms=batch.max_timestamp)
    else:
        data = bytearray(
            _encoded(
                batch.values,
                batch.max_timestamp,
                (batch.producer_id, batch.producer_epoch, batch.base_sequence),
                batch.is_transactional,
            )
        )
    stamp(data, 0, base_offset=batch.base_offset, leader_epoch=batch.leader_epoch)
    return data


def _marker(batch: SimBatch) -> EndTxnMarker:
    marker = marker_of(batch)
    return EndTxnMarker(
        marker.commit, marker.producer_id, marker.producer_epoch, marker.coordinator_epoch
    )


@lru_cache(maxsize=_REMEMBERED)
def _encoded(
    values: tuple[int, ...], timestamp: int, producer: tuple[int, int, int], transactional: bool
) -> bytes:
    records = [Record(n, timestamp, None, _value(number)) for n, number in enumerate(values)]
    producer_id, producer_epoch, base_sequence = producer
    return bytes(
        encode(
            records,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=transactional,
        )
    )


def _value(number: int) -> bytes:
    padding = number * 53 % (LARGEST_PADDING + 1)
    return number.to_bytes(NUMBER_BYTES, "big").ljust(NUMBER_BYTES + padding, b".")


def decoded(runs: Iterable[memoryview], limit: int) -> list[SimBatch]:
    """The first batches, at most so many, in what a log served."""
    batches: list[SimBatch] = []
    for run in runs:
        for position, header in iter_batches(run):
            if len(batches) == limit:
                return batches
            batches.append(_decoded(bytes(run[position : position + header.size_bytes])))
    return batches


@lru_cache(maxsize=_REMEMBERED)
def _decoded(data: bytes) -> SimBatch:
    header = read_header(data)
    if header.is_control:
        return _decoded_marker(data, header)
    records = decode(data)
    return SimBatch(
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        leader_epoch=header.leader_epoch,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        record_count=header.record_count,
        values=tuple(int.from_bytes((r.value or b"")[:NUMBER_BYTES], "big") for r in records),
        is_transactional=header.is_transactional,
        is_control=header.is_control,
    )


def _decoded_marker(data: bytes, header: BatchHeader) -> SimBatch:
    found = end_txn_marker(data)
    assert found is not None, f"a control batch without a marker at {header.base_offset}"
    marker = Marker(found.producer_id, found.producer_epoch, found.commit, found.coordinator_epoch)
    return marker_batch(marker, header.max_timestamp)._replace(
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        leader_epoch=header.leader_epoch,
    )
