"""Work on the records of a produced batch. A record that would break a reader is not appended,
as with Kafka's LogValidator.

Every batch is walked: as many records as its header counts, offset deltas that count up, lengths
that are true, nothing behind the last record. The walk is compiled and makes no objects: 7 ns per
record. It also tells whether a key is missing and which timestamps there are, for the topics that
ask; the records themselves are read only to name the guilty ones. A `compression.type` of the
topic wants other bytes.

1 MB may decompress to 64 MiB; more is refused. So work on the event loop is bounded: in the bytes
that come in and in the bytes that come out, and it never searches a large batch for bad records.
Everything else is done on a thread, one batch at a time. Batches of a partition must enter its log
in the order they came: while one of them is on the thread, later ones go there too.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tidelog.broker.replication.topic_settings import TopicSettings
from tidelog.core.errors import Error
from tidelog.core.types import PartitionId
from tidelog.host.ports import Workers
from tidelog.wire.records import (
    CODEC_NAMES,
    HEADER_SIZE,
    BatchHeader,
    BatchTooLarge,
    Buffer,
    DecodeLimits,
    InvalidBatch,
    Record,
    iter_records,
    walk,
)
from tidelog.wire.records.body import build_batch
from tidelog.wire.records.compression import NONE, decompress
from tidelog.wire.records.header import (
    CODEC_MASK,
    MAX_INT64,
    MIN_INT64,
    NO_TIMESTAMP,
    stamp_max_timestamp,
)

LOG_APPEND_TIME = "LogAppendTime"
FROM_PRODUCER = "producer"
CODECS = {name: codec for codec, name in CODEC_NAMES.items()} | {"uncompressed": NONE}

SMALL_BYTES = 4 * 1024
SMALL_RECORDS = 100
"""Read record by record, about a millisecond of the event loop; record headers can make it a few
(8000 headers in 16 KiB took 15 ms)."""

QUICK_COMPRESSED_BYTES = 64 * 1024
QUICK_PLAIN_BYTES = 256 * 1024
"""What is decompressed at once and walked: below a millisecond with gzip, the slowest codec."""

REPORTED_RECORDS_MAX = 1_000

LIMITS = DecodeLimits(max_items=250_000)


class RecordError(NamedTuple):
    position: int
    message: str


class BadRecords(InvalidBatch):
    """These records of the batch may not enter this topic; the others could have."""

    def __init__(self, error: Error, records: list[RecordError]) -> None:
        super().__init__(records[0].message)
        self.error = error
        self.records = records


class RecordWork(NamedTuple):
    """What one batch has to be, besides good, to enter its topic."""

    require_keys: bool
    earliest_ms: int
    latest_ms: int
    codec: int | None
    """Other than its own."""
    message_max_bytes: int


def work_on(header: BatchHeader, settings: TopicSettings, wall_ms: int) -> RecordWork:
    earliest_ms, latest_ms, codec = MIN_INT64, MAX_INT64, None
    if settings.timestamp_type != LOG_APPEND_TIME:
        earliest_ms = wall_ms - settings.timestamp_before_max_ms
        latest_ms = wall_ms + settings.timestamp_after_max_ms
    if settings.compression_type != FROM_PRODUCER:
        wanted = CODECS[settings.compression_type]
        codec = wanted if wanted != header.codec else None
    return RecordWork(
        settings.log.compacts, earliest_ms, latest_ms, codec, settings.message_max_bytes
    )


def is_small(header: BatchHeader) -> bool:
    return (
        header.codec == NONE
        and header.size_bytes <= SMALL_BYTES
        and header.record_count <= SMALL_RECORDS
    )


def is_quick(work: RecordWork, header: BatchHeader) -> bool:
    """A walk takes no longer than the checksum did; the Python twin takes 2 µs per record."""
    return (
        walk.is_compiled()
        and work.codec is None
        and (header.codec == NONE or header.size_bytes <= QUICK_COMPRESSED_BYTES)
    )


def perform_at_once(work: RecordWork, batch: Buffer, header: BatchHeader) -> Buffer | None:
    """Like `perform`; None if that could hold up the event loop."""
    if is_small(header):
        return perform(work, batch, header)
    if not is_quick(work, header):
        return None
    try:
        plain = plain_records(batch, header, QUICK_PLAIN_BYTES)
    except InvalidBatch:
        return None  # more than that, or broken: the thread finds out
    latest_ms = latest_if_good(work, plain, header)
    return None if latest_ms is None else finished(work, batch, header, plain, latest_ms)


def perform(work: RecordWork, batch: Buffer, header: BatchHeader) -> Buffer:
    """The batch to append; an InvalidBatch if it may not be. Touches nothing but its arguments,
    so it may run on any thread."""
    plain = plain_records(batch, header, LIMITS.max_decompressed_bytes)
    latest_ms = latest_if_good(work, plain, header)
    if latest_ms is None:
        raise reason_to_refuse(work, plain, header)
    return finished(work, batch, header, plain, latest_ms)


class PlainRecords(NamedTuple):
    """Where the records lie without compression: in the batch itself, or beside it."""

    data: Buffer
    start: int


def plain_records(batch: Buffer, header: BatchHeader, limit_bytes: int) -> PlainRecords:
    if header.codec == NONE:
        return PlainRecords(batch, HEADER_SIZE)
    compressed = memoryview(batch)[HEADER_SIZE : header.size_bytes]
    return PlainRecords(decompress(header.codec, compressed, limit_bytes), 0)


def latest_if_good(work: RecordWork, plain: PlainRecords, header: BatchHeader) -> int | None:
    """The newest timestamp, by the walk through the records; None if one of them is not good."""
    found = walk.walk(*plain, header.record_count, header.base_timestamp, LIMITS.max_items)
    if found is None:
        return None
    without_key, earliest_ms, latest_ms = found
    if (
        (without_key and work.require_keys)
        or earliest_ms < work.earliest_ms
        or latest_ms > work.latest_ms
    ):
        return None
    return latest_ms


def finished(
    work: RecordWork, batch: Buffer, header: BatchHeader, plain: PlainRecords, latest_ms: int
) -> Buffer:
    """A good batch as it is appended. Lookups by time and retention believe the header, so a
    wrong newest timestamp there is set right, as Kafka does."""
    if header.max_timestamp != latest_ms:
        assert not isinstance(batch, bytes), "frames and copies of them are writable"
        stamp_max_timestamp(batch, 0, latest_ms)
        header = header._replace(max_timestamp=latest_ms)
    if work.codec is None:
        return batch
    return recompressed(header, plain, work.codec, work.message_max_bytes)


def reason_to_refuse(work: RecordWork, plain: PlainRecords, header: BatchHeader) -> InvalidBatch:
    """Rows 7 and 8 of replication.md §4.1, record by record: for the message."""
    without_key: list[RecordError] = []
    untimely: list[RecordError] = []
    size_bytes = len(plain.data) - plain.start
    inner = walk.header_around(size_bytes, header.record_count, header.base_timestamp)
    limits = LIMITS._replace(max_decompressed_bytes=size_bytes)
    try:
        records = iter_records(plain.data, plain.start - HEADER_SIZE, inner, limits)
        for index, record in enumerate(records):
            if work.require_keys and record.key is None:
                without_key.append(
                    RecordError(index, f"record {index} has no key, and the topic is compacted")
                )
            untimely.extend(_untimely(work, record, index))
    except InvalidBatch as error:
        return error
    assert without_key or untimely, "the walk refused what the reader takes"
    if without_key:
        return BadRecords(Error.INVALID_RECORD, without_key[:REPORTED_RECORDS_MAX])
    return BadRecords(Error.INVALID_TIMESTAMP, untimely[:REPORTED_RECORDS_MAX])


def _untimely(work: RecordWork, record: Record, index: int) -> list[RecordError]:
    timestamp = record.timestamp
    if timestamp == NO_TIMESTAMP:
        return []
    if timestamp < work.earliest_ms:
        limit = f"the earliest this topic takes now is {work.earliest_ms}"
    elif timestamp > work.latest_ms:
        limit = f"the latest this topic takes now is {work.latest_ms}"
    else:
        return []
    return [RecordError(index, f"record {index} has timestamp {timestamp}, {limit}")]


def recompressed(
    header: BatchHeader, plain: PlainRecords, codec: int, message_max_bytes: int
) -> bytearray:
    """The same records under another codec."""
    attributes = (header.attributes & ~CODEC_MASK) | codec
    records = memoryview(plain.data)[plain.start :]
    result = build_batch(header._replace(attributes=attributes), records)
    if len(result) > message_max_bytes:
        raise BatchTooLarge(
            f"batch of {len(result)} bytes after compression.type {CODEC_NAMES[codec]}, "
            f"max.message.bytes is {message_max_bytes}"
        )
    return result


Done = Callable[[Buffer | InvalidBatch | None], None]
"""None: nobody wanted it any more."""


class RecordWorkshop:
    """The thread for work that would hold up the event loop.

    One thread, first come, first served: so the batches of each partition come back in order.
    """

    __slots__ = ("_away", "_worker")

    def __init__(self, worker: Workers) -> None:
        self._worker = worker
        self._away: dict[PartitionId, int] = {}

    def is_busy_with(self, partition: PartitionId) -> bool:
        """A batch of this partition is away: the next one may not overtake it."""
        return partition in self._away

    def send(
        self,
        partition: PartitionId,
        work: RecordWork,
        batch: Buffer,
        header: BatchHeader,
        *,
        is_wanted: Callable[[], bool],
        done: Done,
    ) -> None:
        """`done` is called later, on the loop. The bytes are copied: the frame they came in is
        used again. `is_wanted` is asked on the thread before the work begins: clients that were
        told that their time is over send it again, and would otherwise make the queue longer."""
        self._away[partition] = self._away.get(partition, 0) + 1
        attempt = partial(_attempt, work, bytearray(batch), header, is_wanted)
        future = self._worker.run(attempt)
        future.add_done_callback(lambda ended: self._back(partition, ended, done))

    def close(self) -> None:
        """What is not begun is dropped: nobody was told that it was appended."""
        self._worker.close()

    def _back(
        self,
        partition: PartitionId,
        ended: asyncio.Future[Buffer | InvalidBatch | None],
        done: Done,
    ) -> None:
        left = self._away[partition] - 1
        if left:
            self._away[partition] = left
        else:
            del self._away[partition]
        if not ended.cancelled():
            done(ended.result())


def _attempt(
    work: RecordWork, batch: Buffer, header: BatchHeader, is_wanted: Callable[[], bool]
) -> Buffer | InvalidBatch | None:
    if not is_wanted():
        return None
    try:
        return perform(work, batch, header)
    except InvalidBatch as error:
        # Its traceback would hold what was decompressed, up to 64 MiB, until it is collected.
        error.__context__ = None
        return error.with_traceback(None)
