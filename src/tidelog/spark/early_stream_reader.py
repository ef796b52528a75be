"""A stream over topics for Spark 4.0 and 4.1, which ask how far it goes and say nothing else.

So this reader remembers where the last batch ended. Before Spark has planned the first batch of a
run it does not know, and that batch takes everything that is there.
"""

# ruff: noqa: N802 - Spark names the methods
from collections.abc import Mapping, Sequence

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from tidelog.spark.client_settings import LOGGER
from tidelog.spark.ranges import Offsets, OffsetsDocument, as_document, from_document
from tidelog.spark.topic_stream import TopicStream


class EarlyTopicStreamReader(TopicStream):
    """Limits hold from the second batch of a run on."""

    def __init__(self, values: Mapping[str, str], schema: StructType) -> None:
        super().__init__(values, schema)
        self._reached: Offsets | None = None

    def initialOffset(self) -> OffsetsDocument:
        document = super().initialOffset()
        self._reached = from_document(document)
        return document

    def latestOffset(self) -> OffsetsDocument:  # type: ignore[override] # its form up to 4.1
        if self._reached is not None:
            return as_document(self._plan.latest(self._reached, limited=True))
        admission = self._topics.options.admission
        if admission.max_offsets is not None or admission.max_bytes is not None:
            LOGGER.warning(
                "this Spark does not say where a query is when it starts, so its first batch is not"
                " limited: use Spark 4.2 or later"
            )
        return as_document(self._plan.latest({}, limited=False))

    def partitions(self, start: OffsetsDocument, end: OffsetsDocument) -> Sequence[InputPartition]:
        self._reached = from_document(end)
        return super().partitions(start, end)

    def commit(self, end: OffsetsDocument) -> None:
        self._reached = from_document(end)
        super().commit(end)
