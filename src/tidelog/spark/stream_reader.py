"""A stream over topics, as Spark drives it from 4.2 on: with limits, and told where it is."""

# ruff: noqa: N802 - Spark names the methods
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from tidelog.spark.ranges import OffsetsDocument, as_document, from_document
from tidelog.spark.topic_stream import TopicStream


class TopicStreamReader(TopicStream, SupportsTriggerAvailableNow):
    """Asked for the next batch with its start and a limit."""

    def getDefaultReadLimit(self) -> ReadLimit:
        """Spark wants one limit. `latestOffset` applies all of them, unless Spark asks for
        everything (`once`)."""
        admission = self._topics.options.admission
        if admission.max_offsets is not None:
            return ReadMaxRows(admission.max_offsets)
        if admission.max_bytes is not None:
            return ReadMaxBytes(admission.max_bytes)
        if admission.min_offsets is not None:
            return ReadMinRows(admission.min_offsets)
        return ReadAllAvailable()

    def latestOffset(self, start: OffsetsDocument, limit: ReadLimit) -> OffsetsDocument:
        limited = not isinstance(limit, ReadAllAvailable)
        return as_document(self._plan.latest(from_document(start), limited=limited))

    def prepareForTriggerAvailableNow(self) -> None:
        self._plan.freeze()

    def reportLatestOffset(self) -> OffsetsDocument:
        return as_document(self._plan.newest())
