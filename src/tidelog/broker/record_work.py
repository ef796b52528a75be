"""Work on the records of a produced batch, for the topics that need it.

Most topics take a batch as it is: its header and checksum are looked at, its records are not.
Three settings ask for more: a compacted topic wants a key in every record, a limit on old
timestamps wants every timestamp seen, and a `compression.type` of its own wants other bytes.

A walk costs about 2 µs per record and decompression can make 1 MB stand for 64, so one batch may
take half a second. Small plain batches are worked on at once; all others on a thread, one after
the other. Batches of a partition must enter its log in the order they came: while one of them is
away, those behind it go the same way, with or without work.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tidelog.broker.topic_settings import TopicSettings
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
)
from tidelog.wire.records.body import build_batch
from tidelog.wire.records.compression import NONE, decompress
from tidelog.wire.records.header import CODEC_MASK, NO_TIMESTAMP

LOG_APPEND_TIME = "LogAppendTime"
FROM_PRODUCER = "producer"
UNLIMITED_MS = (1 << 63) - 1
CODECS = {name: codec for codec, name in CODEC_NAMES.items()} | {"uncompressed": NONE}

SMALL_BYTES = 4 * 1024
SMALL_RECORDS = 100
"""About a millisecond of the event loop; record headers can make it a few (8000 headers in
16 KiB took 15 ms)."""

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
    """What has to be done with the records of one batch."""

    require_keys: bool
    earliest_ms: int | None
    latest_ms: int | None
    codec: int | None
    message_max_bytes: int

    @property
    def inspects(self) -> bool:
        return self.require_keys or self.earliest_ms is not None or self.latest_ms is not None


def work_on(header: BatchHeader, settings: TopicSettings, wall_ms: int) -> RecordWork | None:
    """None if the batch may enter the topic as it is, which is the rule."""
    require_keys = settings.log.compacts
    earliest_ms = latest_ms = codec = None
    if settings.timestamp_type != LOG_APPEND_TIME:
        if settings.timestamp_before_max_ms != UNLIMITED_MS:
            earliest_ms = wall_ms - settings.timestamp_before_max_ms
        # The header tells the newest timestamp. Only to name the guilty records they are read.
        if header.max_timestamp > wall_ms + settings.timestamp_after_max_ms:
            latest_ms = wall_ms + settings.timestamp_after_max_ms
    if settings.compression_type != FROM_PRODUCER:
        wanted = CODECS[settings.compression_type]
        codec = wanted if wanted != header.codec else None
    if require_keys or earliest_ms is not None or latest_ms is not None or codec is not None:
        return RecordWork(require_keys, earliest_ms, latest_ms, codec, settings.message_max_bytes)
    return None


def is_small(header: BatchHeader) -> bool:
    return (
        header.codec == NONE
        and header.size_bytes <= SMALL_BYTES
        and header.record_count <= SMALL_RECORDS
    )


def perform(work: RecordWork, batch: Buffer, header: BatchHeader) -> Buffer:
    """The batch to append; an InvalidBatch if it may not be. Touches nothing but its arguments,
    so it may run on any thread."""
    if work.inspects:
        inspect(work, batch, header)
    if work.codec is None:
        return batch
    return recompressed(batch, header, work.codec, work.message_max_bytes)


def inspect(work: RecordWork, batch: Buffer, header: BatchHeader) -> None:
    """Rows 7 and 8 of replication.md §4.1, in one walk through the records."""
    without_key: list[RecordError] = []
    untimely: list[RecordError] = []
    for index, record in enumerate(iter_records(batch, 0, header, LIMITS)):
        if record.offset != index:
            message = f"record {index} has offset delta {record.offset}"
            raise BadRecords(Error.INVALID_RECORD, [RecordError(index, message)])
        if work.require_keys and record.key is None:
            without_key.append(
                RecordError(index, f"record {index} has no key, and the topic is compacted")
            )
        untimely.extend(_untimely(work, record, index))
    if without_key:
        raise BadRecords(Error.INVALID_RECORD, without_key[:REPORTED_RECORDS_MAX])
    if untimely:
        raise BadRecords(Error.INVALID_TIMESTAMP, untimely[:REPORTED_RECORDS_MAX])
    if work.latest_ms is not None:
        message = (
            f"the header of the batch has timestamp {header.max_timestamp}, "
            f"the latest this topic takes now is {work.latest_ms}"
        )
        raise BadRecords(Error.INVALID_TIMESTAMP, [RecordError(0, message)])


def _untimely(work: RecordWork, record: Record, index: int) -> list[RecordError]:
    timestamp = record.timestamp
    if timestamp == NO_TIMESTAMP:
        return []
    if work.earliest_ms is not None and timestamp < work.earliest_ms:
        limit = f"the earliest this topic takes now is {work.earliest_ms}"
    elif work.latest_ms is not None and timestamp > work.latest_ms:
        limit = f"the latest this topic takes now is {work.latest_ms}"
    else:
        return []
    return [RecordError(index, f"record {index} has timestamp {timestamp}, {limit}")]


def recompressed(
    batch: Buffer, header: BatchHeader, codec: int, message_max_bytes: int
) -> bytearray:
    """The same records under another codec; they themselves are not looked at."""
    compressed = memoryview(batch)[HEADER_SIZE : header.size_bytes]
    plain = decompress(header.codec, compressed, LIMITS.max_decompressed_bytes)
    attributes = (header.attributes & ~CODEC_MASK) | codec
    result = build_batch(header._replace(attributes=attributes), plain)
    if len(result) > message_max_bytes:
        raise BatchTooLarge(
            f"batch of {len(result)} bytes after compression.type {CODEC_NAMES[codec]}, "
            f"max.message.bytes is {message_max_bytes}"
        )
    return result


Done = Callable[[Buffer | InvalidBatch], None]


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
        work: RecordWork | None,
        batch: Buffer,
        header: BatchHeader,
        done: Done,
    ) -> None:
        """`done` is called later, on the loop. The bytes are copied: the frame they came in is
        used again."""
        self._away[partition] = self._away.get(partition, 0) + 1
        future = self._worker.run(partial(_attempt, work, bytearray(batch), header))
        future.add_done_callback(lambda ended: self._back(partition, ended, done))

    def close(self) -> None:
        """What is not begun is dropped: nobody was told that it was appended."""
        self._worker.close()

    def _back(
        self,
        partition: PartitionId,
        ended: asyncio.Future[Buffer | InvalidBatch],
        done: Done,
    ) -> None:
        left = self._away[partition] - 1
        if left:
            self._away[partition] = left
        else:
            del self._away[partition]
        if not ended.cancelled():
            done(ended.result())


def _attempt(work: RecordWork | None, batch: Buffer, header: BatchHeader) -> Buffer | InvalidBatch:
    if work is None:
        return batch
    try:
        return perform(work, batch, header)
    except InvalidBatch as error:
        # Its traceback would hold what was decompressed, up to 64 MiB, until it is collected.
        error.__context__ = None
        return error.with_traceback(None)
