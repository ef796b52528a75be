"""How Spark writes: tasks stage what they have, and the commit on the driver delivers it.

With `exactlyOnce=false` tasks write to the topics themselves: at least once, like stock.
"""

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from tidelog.client import ClientError
from tidelog.client.batch_producer import BatchProducer
from tidelog.spark.connection import Connection, connect
from tidelog.spark.delivery import BatchIdentity, Delivery
from tidelog.spark.failure import TidelogError
from tidelog.spark.marker import MarkerLog
from tidelog.spark.mirror_delivery import MirrorDelivery
from tidelog.spark.outgoing_rows import Origins, OutgoingRows, TopicRows, partition_count
from tidelog.spark.sink_options import SinkSettings
from tidelog.spark.sink_refusals import told
from tidelog.spark.spark_releases import StreamArrowWriter, as_batches
from tidelog.spark.staging import (
    Attempt,
    StagedRows,
    Staging,
    staging_directory,
    sweep,
    this_machine,
)
from tidelog.spark.worker_memory import keep_what_is_loaded

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

Received = Sequence[WriterCommitMessage | None]
"""What the driver has of its tasks; None for those that failed."""

QUERY_ID = "sql.streaming.queryId"
NUMBER = "streaming.sql.batchId"
RUN_ID = "spark.jobGroup.id"
"""Spark calls the group of a query's jobs by the id of its run."""


@dataclass(frozen=True)
class SentRows(WriterCommitMessage):
    """A task has written its rows itself."""

    records: int


_markers: dict[Connection, MarkerLog] = {}
"""What the commit process has read. Spark keeps it for the next micro-batch."""


def deliver(
    settings: SinkSettings,
    kind: Callable[..., Delivery],
    batch: BatchIdentity,
    staged: Sequence[StagedRows],
) -> bool:
    """Commit on the driver. Files go when it is decided; after a failure nothing is kept."""
    client = settings.client
    connection = connect(settings.bootstrap, client, client.delivery_timeout_ms)
    markers = _markers.pop(connection, None) or MarkerLog(connection.client)
    delivery = kind(connection.client, markers, batch, client)
    written = connection.run(delivery.deliver(staged))
    _markers[connection] = markers
    remove(staged)
    for directory in {rows.place.above() for rows in staged if rows.path is not None}:
        sweep(directory, batch.query_id, batch.number)
    return written


def remove(messages: Received) -> None:
    for message in messages:
        if isinstance(message, StagedRows):
            message.remove()


class TaskRows:
    """What a task does with its rows. Goes to the task, so it holds only what can be pickled."""

    def __init__(self, settings: SinkSettings, columns: tuple[str, ...]) -> None:
        self.settings = settings
        self.columns = columns
        self.driver = this_machine()

    def stage(self, rows: Iterator["pa.RecordBatch"], attempt: Attempt, run_id: str) -> StagedRows:
        staging = Staging(attempt, staging_directory(self.settings, self.driver))
        origins = Origins()
        if self.settings.offset_map is not None:
            rows = origins.noting(rows)
        try:
            with refusals_told():
                for topic, batches in self._encoded(self._connection(), rows):
                    for partition, encoded in batches.items():
                        for batch in encoded:
                            staging.add(topic, partition, batch)
            return replace(staging.finish(run_id, this_machine()), origins=origins.all())
        except BaseException:
            staging.discard()
            raise

    def send(self, rows: Iterator["pa.RecordBatch"]) -> SentRows:
        """What was encoded is on its way while the next rows are encoded."""
        connection = self._connection()
        producer = BatchProducer(connection.client, acks=self.settings.client.acks)
        records = 0
        sending: Future[int] | None = None
        with refusals_told():
            for part in self._encoded(connection, rows):
                records += sending.result() if sending is not None else 0
                sending = connection.submit(send_part(producer, part))
            records += sending.result() if sending is not None else 0
        return SentRows(records)

    def _connection(self) -> Connection:
        client = self.settings.client
        return connect(self.settings.bootstrap, client, client.delivery_timeout_ms)

    def _encoded(
        self, connection: Connection, rows: Iterator["pa.RecordBatch"]
    ) -> Iterator[TopicRows]:
        def count(topic: str) -> int:
            asked = partition_count(
                connection.client,
                topic,
                self.settings.bootstrap,
                create=self.settings.offset_map is None,  # a copy has partitions like its source
            )
            return connection.run(asked)

        outgoing = OutgoingRows(self.settings, self.columns, count, task_number())
        return outgoing.encoded(rows, lambda: time.time_ns() // 1_000_000)


async def send_part(producer: BatchProducer, part: TopicRows) -> int:
    feeds = {(part.topic, partition): batches for partition, batches in part.batches.items()}
    return sum(each.records for each in await producer.write_batches(feeds))


@contextmanager
def refusals_told() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        raise told(error, "rows are not written", "start again") from None


class TidelogWriter(DataSourceArrowWriter):
    """One write of a DataFrame: all of it or nothing."""

    delivery: ClassVar[type[Delivery]] = Delivery

    def __init__(self, settings: SinkSettings, columns: tuple[str, ...]) -> None:
        self._rows = TaskRows(settings, columns)
        self._write_id = uuid.uuid4().hex

    @property
    def _identity(self) -> BatchIdentity:
        settings = self._rows.settings
        application = settings.application
        if application is None:
            sink_id = settings.sink_id or self._write_id
            return BatchIdentity(sink_id, self._write_id, self._write_id, 0, repeatable=False)
        sink_id = settings.sink_id or application.name
        return BatchIdentity(sink_id, application.name, self._write_id, application.version)

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        keep_what_is_loaded()
        if not self._rows.settings.exactly_once:
            return self._rows.send(iterator)
        identity = self._identity
        attempt = Attempt(self._write_id, identity.number, task_number())
        return self._rows.stage(iterator, attempt, identity.run_id)

    def commit(self, messages: Received) -> None:
        staged = [each for each in messages if isinstance(each, StagedRows)]
        if staged:
            deliver(self._rows.settings, self.delivery, self._identity, staged)

    def abort(self, messages: Received) -> None:
        """Undoes nothing: what is decided stays. Only files of this attempt go."""
        remove(messages)


class TidelogStreamWriter(StreamArrowWriter):
    """The sink of a streaming query: each micro-batch once, however often it is tried."""

    delivery: ClassVar[type[Delivery]] = Delivery

    def __init__(
        self, settings: SinkSettings, columns: tuple[str, ...], schema: "StructType"
    ) -> None:
        self._rows = TaskRows(settings, columns)
        self._schema = schema

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        keep_what_is_loaded()
        batches = as_batches(iterator, self._schema)
        if not self._rows.settings.exactly_once:
            return self._rows.send(batches)
        context = TaskContext.get()
        query_id = context.getLocalProperty(QUERY_ID) if context is not None else None
        if context is None or query_id is None:
            raise TidelogError(
                "Spark does not say which query this is, so a repeated batch cannot be told",
                "write from a streaming query, or say exactlyOnce=false",
            )
        number = int(context.getLocalProperty(NUMBER) or 0)
        run_id = context.getLocalProperty(RUN_ID) or query_id
        return self._rows.stage(batches, Attempt(query_id, number, task_number()), run_id)

    # The names of parameters are Spark's: it passes them by name.
    def commit(self, messages: Received, batchId: int) -> None:  # noqa: N803
        staged = [each for each in messages if isinstance(each, StagedRows)]
        if not staged:
            return
        settings, first = self._rows.settings, staged[0]
        sink_id = settings.sink_id or first.query_id
        batch = BatchIdentity(sink_id, first.query_id, first.run_id, batchId)
        kind: Callable[..., Delivery] = self.delivery
        if settings.offset_map is not None:
            kind = partial(MirrorDelivery, cluster_id=settings.offset_map)
        deliver(settings, kind, batch, staged)

    def abort(self, messages: Received, batchId: int) -> None:  # noqa: N803
        """Undoes nothing: what is decided stays. Only files of this attempt go."""
        remove(messages)


def task_number() -> int:
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0
