"""Records that could not be decoded: told apart from the others, and written to a topic of theirs.

A task stages them as the sink of topics does, and the commit of the batch delivers them in one
transaction with a marker of the batch, before the table is committed. A batch that comes again
finds its marker and writes nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from tidelog.spark import dead_letter_words as words
from tidelog.spark.delivery import BatchIdentity, Delivery
from tidelog.spark.options import Options
from tidelog.spark.outgoing_rows import OutgoingRows, partition_count
from tidelog.spark.sink_options import SinkSettings, sink_settings
from tidelog.spark.staging import Attempt, StagedRows, Staging, staging_directory, this_machine
from tidelog.spark.tables.words import BatchId
from tidelog.spark.value_format import BAD_COLUMNS, RAW_VALUE, REASON
from tidelog.spark.writer import deliver, refusals_told
from tidelog.wire.arrow.schema import COLUMN_TYPES

if TYPE_CHECKING:
    from tidelog.spark.connection import Connection

COLUMNS: Final = ("key", "value", "headers", "topic", "partition")
SCHEMA: Final = pa.schema([(name, COLUMN_TYPES[name]) for name in COLUMNS])


class Letters(NamedTuple):
    """What tasks and the commit must know. Goes to tasks."""

    settings: SinkSettings
    topic: str | None
    """None: each topic has one of its own."""
    pipeline: str
    driver: str

    def topic_of(self, source: str) -> str:
        return self.topic or source + words.SUFFIX


def letters_of(values: Mapping[str, str]) -> Letters:
    """From the options of a table sink: those of the cluster, `deadLetterTopic`, `queryName`."""
    options = Options(values)
    wanted = {name: value for name, value in values.items() if name.lower().startswith("kafka.")}
    checkpoint = options.text("checkpointLocation")
    if checkpoint is not None:
        wanted["checkpointLocation"] = checkpoint
    pipeline = options.text("queryName") or options.text("pipeline") or ""
    settings = sink_settings(Options(wanted))
    return Letters(settings, options.text("deadLetterTopic"), pipeline, this_machine())


class LetterStage:
    """The dead letters of one task."""

    def __init__(self, letters: Letters, attempt: Attempt, connection: "Connection") -> None:
        self._letters = letters
        self._staging = Staging(attempt, staging_directory(letters.settings, letters.driver))
        self._counts: dict[str, int] = {}
        self._connection = connection
        self._outgoing = OutgoingRows(letters.settings, COLUMNS, self._count, attempt.task)

    def add(self, rows: pa.RecordBatch, now_ms: Callable[[], int]) -> None:
        with refusals_told():
            for part in self._outgoing.encoded([self._written(rows)], now_ms):
                for partition, encoded in part.batches.items():
                    for batch in encoded:
                        self._staging.add(part.topic, partition, batch)

    def finish(self, run_id: str) -> StagedRows:
        return self._staging.finish(run_id, this_machine())

    def discard(self) -> None:
        self._staging.discard()

    def _count(self, topic: str) -> int:
        if topic not in self._counts:
            asked = partition_count(
                self._connection.client, topic, self._letters.settings.bootstrap
            )
            self._counts[topic] = self._connection.run(asked)
        return self._counts[topic]

    def _written(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """As records: one partition of the source goes to one of theirs, so order is kept."""
        made = []
        for row in rows.to_pylist():
            topic = self._letters.topic_of(row["topic"])
            made.append(
                {
                    "key": row["key"],
                    "value": row[RAW_VALUE],
                    "headers": [*(row["headers"] or ()), *told(row, self._letters.pipeline)],
                    "topic": topic,
                    "partition": row["partition"] % self._count(topic),
                }
            )
        return pa.RecordBatch.from_pylist(made, schema=SCHEMA)


def told(row: Mapping[str, Any], pipeline: str) -> list[dict[str, Any]]:
    """Where a record came from and why it is here, as headers."""
    found = {
        words.REASON: row[REASON],
        words.TOPIC: row["topic"],
        words.PARTITION: row["partition"],
        words.OFFSET: row["offset"],
        words.TIMESTAMP: int(row["timestamp"].timestamp() * 1000 + 0.5),
        words.PIPELINE: pipeline,
    }
    return [{"key": name, "value": str(value).encode()} for name, value in found.items()]


def good_rows(
    batches: Iterable[pa.RecordBatch], on_bad: Callable[[pa.RecordBatch], None]
) -> Iterator[pa.RecordBatch]:
    """The rows that were decoded, without the columns that tell of the others."""
    for batch in batches:
        is_bad = batch[REASON].is_valid()
        rest = batch.drop_columns(list(BAD_COLUMNS))
        if batch[REASON].null_count == batch.num_rows:
            yield rest
            continue
        on_bad(batch.filter(is_bad))
        yield rest.filter(batch[REASON].is_null())


def deliver_letters(
    letters: Letters, run_id: str, batch: BatchId, staged: list[StagedRows]
) -> bool:
    """On the driver, before the table is committed. False: they are written already."""
    identity = BatchIdentity(f"dead-letters-{batch.query}", batch.query, run_id, batch.number)
    return deliver(letters.settings, Delivery, identity, staged)
