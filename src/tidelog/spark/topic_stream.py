"""What every stream over topics does, whatever Spark can do around it.

Spark keeps one instance on the driver for a query, and sends copies to tasks that only read.
"""

# ruff: noqa: N802 - Spark names the methods
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from tidelog.spark.batch_reader import TopicReader
from tidelog.spark.lookup import Lookup
from tidelog.spark.ranges import OffsetsDocument, as_document, from_document
from tidelog.spark.stream_plan import StreamPlan

if TYPE_CHECKING:
    import pyarrow as pa


class TopicStream(DataSourceStreamReader):
    """Turns Spark's questions into those of a StreamPlan."""

    def __init__(self, values: Mapping[str, str], schema: StructType) -> None:
        self._topics = TopicReader(values, schema, streaming=True)
        options = self._topics.options
        self._plan = StreamPlan(options, Lookup(options), _monotonic_ms)

    def __getstate__(self) -> TopicReader:
        """A copy for tasks knows the options and nothing of where the query is."""
        return self._topics

    def __setstate__(self, topics: TopicReader) -> None:
        self._topics = topics

    def initialOffset(self) -> OffsetsDocument:
        return as_document(self._plan.initial())

    def partitions(self, start: OffsetsDocument, end: OffsetsDocument) -> Sequence[InputPartition]:
        ranges = self._plan.ranges(from_document(start), from_document(end))
        return self._topics.tasks(ranges)

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return self._topics.pieces(partition)

    def commit(self, end: OffsetsDocument) -> None:
        self._plan.finished(from_document(end))


def _monotonic_ms() -> float:
    return time.monotonic() * 1000
