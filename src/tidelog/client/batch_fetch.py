"""Whole record batches of a partition, as the brokers send them.

For readers that take records by the million: nothing here looks at a single record. An answer is
handed over as the bytes it came in, with the table of its batches, and the next question is on
its way while the reader is busy with it.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from tidelog.client.client import Client
from tidelog.client.errors import KafkaError, check
from tidelog.client.links import FETCH
from tidelog.client.offsets import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    find_offset,
    leader_of,
)
from tidelog.core.errors import Error
from tidelog.host import tasks
from tidelog.wire.kernel import BatchTable, scan_batches
from tidelog.wire.protocol.schemas.fetch_request import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.protocol.schemas.fetch_response import FetchResponse, PartitionData
from tidelog.wire.records import Buffer, InvalidBatch

ANSWER_WITHIN_MS = 5_000
LIKELY_OFFSET_BYTES = 128.0
"""Before a partition has shown what an offset takes in it. Too little costs another question,
too much is read for nothing."""
LEAST_BYTES = 64 * 1024
SPANS_UNDER_WAY = 4
"""Small ones are not waited for one by one, and large ones do not fill the memory."""
_CONTROL_BIT = 0x20


class FetchSettings(NamedTuple):
    """How brokers are asked. `timeout_ms` is how long a partition may give nothing at all."""

    committed: bool = True
    max_bytes: int = 4 * 1024 * 1024
    min_bytes: int = 1
    max_wait_ms: int = 500
    timeout_ms: int = 120_000


DEFAULT_SETTINGS = FetchSettings()


class Span(NamedTuple):
    """Part of a partition; `end` is excluded."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


class Aborted(NamedTuple):
    """Transactional batches of a producer between two offsets of one region, both included."""

    producer_id: int
    first_offset: int
    last_offset: int


class Region(NamedTuple):
    """One answer. It may begin before `from_offset` and end after the span that was asked for,
    because batches are never cut. Aborted transactions are those of this region alone."""

    records: Buffer
    table: BatchTable
    aborted: tuple[Aborted, ...]
    from_offset: int
    next_offset: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


class OutOfRange(KafkaError):  # noqa: N818 - it says where an offset lies, not that code failed
    """The partition does not have this offset: it begins later, or ends before it."""

    def __init__(self, span: Span, log_start_offset: int, log_end_offset: int) -> None:
        self.offset = span.start
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        super().__init__(
            Error.OFFSET_OUT_OF_RANGE,
            f"{span.name} at offset {span.start}: it has {log_start_offset} to {log_end_offset}",
        )


class GarbledAnswer(Exception):  # noqa: N818
    """A broker sent bytes that are no record batches."""


GONE = (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.UNKNOWN_TOPIC_ID)
OnLoss = Callable[[Span, KafkaError], int]
"""What is left of a span is not there, either that offset (OutOfRange) or the whole partition:
says where to go on, or raises. Called on the event loop."""


def fail(_span: Span, error: KafkaError) -> int:
    """Records that were asked for are gone, and that is an error."""
    raise error


async def fetch_spans(
    client: Client,
    spans: Iterable[Span],
    settings: FetchSettings = DEFAULT_SETTINGS,
    on_loss: OnLoss = fail,
) -> AsyncGenerator[tuple[Span, Region], None]:
    """Everything in these spans, one after the other, through changes of leaders.

    Questions run ahead of the reader: the next ones of this span, and the first of those after.
    """
    waiting = deque(spans)
    under_way: deque[_Pump] = deque()
    try:
        while under_way or waiting:
            while waiting and len(under_way) < SPANS_UNDER_WAY:
                under_way.append(_Pump(client, waiting.popleft(), settings, on_loss))
            pump = under_way[0]
            while (region := await pump.next()) is not None:
                yield pump.span, region
            under_way.popleft()
    finally:
        for pump in under_way:
            await pump.close()


class _Pump:
    """Fetches one span into a short queue."""

    __slots__ = ("_queue", "_task", "span")

    def __init__(
        self, client: Client, span: Span, settings: FetchSettings, on_loss: OnLoss
    ) -> None:
        self.span = span
        self._queue: asyncio.Queue[Region | Exception | None] = asyncio.Queue(maxsize=1)
        self._task = tasks.begin(self._run(client, settings, on_loss))

    async def next(self) -> Region | None:
        """None at the end of the span."""
        found = await self._queue.get()
        if isinstance(found, Exception):
            raise found
        return found

    async def close(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _run(self, client: Client, settings: FetchSettings, on_loss: OnLoss) -> None:
        left = self.span
        offset_bytes = LIKELY_OFFSET_BYTES
        try:
            while left.start < left.end:
                most = round((left.end - left.start) * offset_bytes) + LEAST_BYTES
                asked = settings._replace(max_bytes=min(settings.max_bytes, most))
                try:
                    region = await fetch_region(client, left, asked)
                except KafkaError as error:
                    if not isinstance(error, OutOfRange) and error.error not in GONE:
                        raise
                    left = left._replace(start=max(on_loss(left, error), left.start + 1))
                    continue
                left = left._replace(start=region.next_offset)
                if region.table.rows:
                    offsets = region.next_offset - region.table.column("base_offset")[0]
                    offset_bytes = region.table.end / max(offsets, 1)
                    await self._queue.put(region)
            await self._queue.put(None)
        except Exception as error:  # the border of a task: the reader raises it
            await self._queue.put(error)


async def fetch_region(client: Client, span: Span, settings: FetchSettings) -> Region:
    """The next batches of a span. Where it ends without records, because compaction took them,
    the region is empty and ends with the span."""
    quiet = 0

    async def ask() -> Region:
        nonlocal quiet
        wait_ms = settings.max_wait_ms if quiet == 0 else 0
        data = await _ask_leader(client, span, settings, wait_ms)
        region = as_region(span, data)
        if region.next_offset > span.start:
            return region
        # What may be read reaches the end of the span, and there is nothing until there. Twice,
        # because nothing else tells this from a leader that has just begun.
        if len(region.records):
            raise GarbledAnswer(f"{span.name} at offset {span.start}: the batch there is cut off")
        reached = region.last_stable_offset if settings.committed else region.high_watermark
        quiet = quiet + 1 if reached >= span.end else 0
        if quiet > 1:
            return region._replace(next_offset=span.end)
        raise KafkaError(
            Error.OFFSET_NOT_AVAILABLE,
            f"{span.name} ends at {reached} for a reader, and {span.start} was to be read",
        )

    try:
        return await client.retrying(ask, timeout_ms=settings.timeout_ms)
    except KafkaError as error:
        if error.error != Error.OFFSET_OUT_OF_RANGE:
            raise
    raise await _out_of_range(client, span)


async def _out_of_range(client: Client, span: Span) -> OutOfRange:
    first = await find_offset(client, span.topic, span.partition, EARLIEST)
    last = await find_offset(client, span.topic, span.partition, LATEST)
    return OutOfRange(span, first.offset, last.offset)


async def _ask_leader(
    client: Client, span: Span, settings: FetchSettings, wait_ms: int
) -> PartitionData:
    leader, epoch = await leader_of(client, span.topic, span.partition)
    part = FetchPartition(
        partition=span.partition,
        current_leader_epoch=epoch,
        fetch_offset=span.start,
        partition_max_bytes=settings.max_bytes,
    )
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=settings.min_bytes,
        max_bytes=settings.max_bytes,
        isolation_level=READ_COMMITTED if settings.committed else READ_UNCOMMITTED,
        topics=[FetchTopic(topic=span.topic, partitions=[part])],
    )
    answer = await client.ask_broker(
        leader, request, FetchResponse, purpose=FETCH, timeout_ms=wait_ms + ANSWER_WITHIN_MS
    )
    check(answer.error_code)
    data = answer.responses[0].partitions[0]
    check(data.error_code, f"{span.name} at offset {span.start}")
    return data


def as_region(span: Span, data: PartitionData) -> Region:
    """An answer with the table of its batches. A batch that was cut off at the end of the answer
    does not count; wrong checksums are in the table."""
    records: Buffer = data.records if data.records is not None else b""
    try:
        table = scan_batches(records)
    except InvalidBatch as error:
        place = f"{span.name} from offset {span.start}"
        raise GarbledAnswer(f"{place}: what the broker sent is no record batch: {error}") from error
    next_offset = span.start
    if table.rows:
        next_offset = max(next_offset, table.column("last_offset")[-1] + 1)
    told = [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()]
    return Region(
        records,
        table,
        aborted_ranges(told, table, next_offset) if told else (),
        span.start,
        next_offset,
        data.high_watermark,
        data.last_stable_offset,
        data.log_start_offset,
    )


def aborted_ranges(
    told: Sequence[tuple[int, int]], table: BatchTable, end: int
) -> tuple[Aborted, ...]:
    """Where the aborted transactions end that a broker told with a region: at the first marker
    of their producer, or with the region. The next answer tells again of what goes on in it."""
    attributes, producers = table.column("attributes"), table.column("producer_id")
    bases = table.column("base_offset")
    markers: dict[int, list[int]] = {}
    for row in range(table.rows):
        if attributes[row] & _CONTROL_BIT:
            markers.setdefault(producers[row], []).append(bases[row])
    return tuple(
        Aborted(
            producer,
            first,
            next((each for each in markers.get(producer, ()) if each >= first), end - 1),
        )
        for producer, first in told
        if first < end
    )
