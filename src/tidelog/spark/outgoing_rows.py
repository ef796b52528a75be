"""Rows of a task become record batches, each for the topic and the partition it goes to."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.client import Client, KafkaError
from tidelog.core.errors import Error
from tidelog.spark.failure import TidelogError
from tidelog.spark.sink_options import SOURCE_OFFSET, SinkSettings
from tidelog.spark.sink_refusals import no_topic
from tidelog.spark.staging import Origin
from tidelog.wire.arrow import InvalidColumns, Partitioner, encode_batches
from tidelog.wire.records import BatchTooLarge, WritableBuffer

TOGETHER_BYTES: Final = 8 * 1024 * 1024
"""Rows are collected so far: they are spread over partitions, and small batches are slow."""
TOGETHER_ROWS: Final = 200_000


class TopicRows(NamedTuple):
    """Encoded rows of one topic, by partition."""

    topic: str
    batches: dict[int, list[WritableBuffer]]


async def partition_count(
    client: Client, topic: str, bootstrap: str, *, create: bool = True
) -> int:
    """Asks the cluster, which may make the topic if it does such things. It is asked anew by each
    task: workers live long, and topics are made again."""
    try:
        found = await client.topic(topic, create=create)
    except KafkaError as error:
        if error.error in (Error.UNKNOWN_TOPIC_OR_PARTITION, Error.INVALID_TOPIC_EXCEPTION):
            raise no_topic(topic, bootstrap) from None
        raise
    return len(found.partitions)


class Origins:
    """Which source offsets the rows of one task had."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], tuple[int, int]] = {}

    def noting(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same rows."""
        for batch in rows:
            if batch.num_rows:
                self._note(batch)
            yield batch

    def _note(self, batch: pa.RecordBatch) -> None:
        columns = ["topic", "partition", SOURCE_OFFSET]
        grouped = pa.Table.from_batches([batch.select(columns)]).group_by(columns[:2])
        spans = grouped.aggregate([(SOURCE_OFFSET, "min"), (SOURCE_OFFSET, "max")])
        for row in spans.to_pylist():
            where = (row["topic"], row["partition"])
            first, last = row[f"{SOURCE_OFFSET}_min"], row[f"{SOURCE_OFFSET}_max"]
            known = self._found.get(where, (first, last + 1))
            self._found[where] = (min(known[0], first), max(known[1], last + 1))

    def all(self) -> tuple[Origin, ...]:
        return tuple(Origin(*where, *span) for where, span in sorted(self._found.items()))


class OutgoingRows:
    """Encodes the rows of one task. Remembers where rows without a key go."""

    __slots__ = ("_columns", "_count", "_partitioners", "_settings", "_task")

    def __init__(
        self,
        settings: SinkSettings,
        columns: tuple[str, ...],
        count: Callable[[str], int],
        task: int,
    ) -> None:
        """`count` says how many partitions a topic has."""
        self._settings = settings
        self._columns = columns
        self._count = count
        self._task = task
        self._partitioners: dict[str, Partitioner] = {}

    def encoded(
        self, rows: Iterable[pa.RecordBatch], now_ms: Callable[[], int]
    ) -> Iterator[TopicRows]:
        for table in together(batch.select(self._columns) for batch in rows):
            for topic, part in self._by_topic(table):
                yield TopicRows(topic, self._encode(topic, part, now_ms()))

    def _by_topic(self, table: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self._settings.topic is not None:
            yield self._settings.topic, table
            return
        topics = table.column("topic")
        if topics.null_count:
            raise TidelogError(
                "a row has no topic: its column topic is null",
                "set the option topic, or leave such rows out",
            )
        names = pc.unique(topics).to_pylist()
        rows = table.drop_columns(["topic"])
        for name in names:
            yield name, rows if len(names) == 1 else rows.filter(pc.equal(topics, name))

    def _encode(
        self, topic: str, rows: pa.RecordBatch, now_ms: int
    ) -> dict[int, list[WritableBuffer]]:
        partitioner = self._partitioners.get(topic)
        if partitioner is None:
            partitioner = Partitioner(self._count(topic), sticky=self._task)
            self._partitioners[topic] = partitioner
        try:
            return encode_batches(
                rows, partitioner, timestamp_ms=now_ms, settings=self._settings.batches
            )
        except (InvalidColumns, BatchTooLarge) as error:
            raise TidelogError(
                f"rows for topic {topic} cannot be written: {error}", "change or filter them"
            ) from None


def together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer and larger pieces."""
    held: list[pa.RecordBatch] = []
    size_bytes = rows = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        held.append(batch)
        size_bytes += batch.nbytes
        rows += batch.num_rows
        if size_bytes >= TOGETHER_BYTES or rows >= TOGETHER_ROWS:
            yield _joined(held)
            held = []
            size_bytes = rows = 0
    if held:
        yield _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined
