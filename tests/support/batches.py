"""Record batches for tests, in one line."""

from tidelog.wire.records import (
    BatchHeader,
    EndTxnMarker,
    Record,
    encode,
    encode_end_txn_marker,
    iter_batches,
)


def batch(
    *values: bytes,
    time_ms: int = 1000,
    base_offset: int = 0,
    epoch: int = -1,
    producer: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> bytearray:
    """One batch with these values, all of the same time."""
    return encode(
        [Record(base_offset + n, time_ms, None, value) for n, value in enumerate(values)],
        base_offset=base_offset,
        leader_epoch=epoch,
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=sequence,
        transactional=transactional,
    )


def marker(producer: int, *, commit: bool, time_ms: int = 1000) -> bytearray:
    return encode_end_txn_marker(EndTxnMarker(commit, producer, 0, 0), timestamp_ms=time_ms)


def headers(runs: list[memoryview]) -> list[BatchHeader]:
    return [header for run in runs for _, header in iter_batches(run)]


def offsets(runs: list[memoryview]) -> list[tuple[int, int]]:
    """First and last offset of every batch."""
    return [(header.base_offset, header.last_offset) for header in headers(runs)]
