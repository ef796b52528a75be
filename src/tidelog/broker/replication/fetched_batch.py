"""A batch out of a leader's answer: its header for the state machine, its bytes for the log."""

from tidelog.wire.records import HEADER_SIZE, BatchHeader, iter_batches
from tidelog.wire.records.run import read_run

RUN_BYTES_MAX = 64 * 1024
"""A run goes into one segment. With larger batches it would save little."""


class FetchedBatch:
    """Satisfies `core.types.BatchHeader`; `data` is a view of the answer's frame."""

    __slots__ = ("base_offset", "data", "header", "last_offset", "leader_epoch")

    def __init__(self, header: BatchHeader, data: memoryview) -> None:
        assert len(data) >= HEADER_SIZE, f"a batch of {len(data)} bytes"
        self.header = header
        self.data = data
        self.base_offset = base_offset = header.base_offset
        self.last_offset = base_offset + header.last_offset_delta
        self.leader_epoch = header.leader_epoch

    def __repr__(self) -> str:
        return f"FetchedBatch({self.base_offset}..{self.last_offset}, {len(self.data)} bytes)"

    @property
    def max_timestamp(self) -> int:
        return self.header.max_timestamp

    @property
    def producer_id(self) -> int:
        return self.header.producer_id

    @property
    def producer_epoch(self) -> int:
        return self.header.producer_epoch

    @property
    def base_sequence(self) -> int:
        return self.header.base_sequence

    @property
    def record_count(self) -> int:
        return self.header.record_count

    @property
    def is_transactional(self) -> bool:
        return self.header.is_transactional

    @property
    def is_control(self) -> bool:
        return self.header.is_control


def fetched_batches(records: memoryview) -> list[FetchedBatch]:
    """Every whole batch in the records of one partition, or one run of all if they are small.
    Otherwise only headers are looked at; garbage raises InvalidBatch."""
    if len(records) <= RUN_BYTES_MAX:
        run = read_run(records)
        if run is not None:
            return [FetchedBatch(run, records)]
    return [
        FetchedBatch(header, records[position : position + header.size_bytes])
        for position, header in iter_batches(records)
    ]
