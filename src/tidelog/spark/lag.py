"""How far streams are behind their topics.

Spark takes no metrics of its own from sources in Python. So they are computed on the driver, from
what its progress says, and have the names that the stock connector gives them:

    listener = LagListener()
    spark.streams.addListener(listener)
    ...
    listener.lag("orders").metrics["maxOffsetsBehindLatest"]

What reads the progress of queries as JSON gets it as the stock connector would have written it:

    spark.streams.addListener(LagListener(on_progress=print))  # a line of JSON after each batch
    with_lag(query.lastProgress)["sources"][0]["metrics"]["maxOffsetsBehindLatest"]
"""

# ruff: noqa: N802 - Spark names the methods
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from tidelog.spark.ranges import Offsets, TopicPartition, from_document


class Lag(NamedTuple):
    """Of one source of one query after one batch."""

    query_id: str
    query_name: str | None
    batch_id: int
    behind: dict[TopicPartition, int]
    """Offsets, so that gaps count."""

    @property
    def total(self) -> int:
        return sum(self.behind.values())

    @property
    def metrics(self) -> dict[str, str]:
        """As the stock connector writes them into progress."""
        return metrics_of(self.behind)


class LagListener(StreamingQueryListener):
    """Knows the newest lag of every query that reads topics, and tells each to `on_lag`. The
    progress of every query, as JSON and with these metrics in it, goes to `on_progress`.

    Spark calls it on a thread of its own.
    """

    def __init__(
        self,
        on_lag: Callable[[Lag], None] | None = None,
        *,
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        self._on_lag = on_lag
        self._on_progress = on_progress
        self._lags: dict[str, list[Lag]] = {}

    def lag(self, query: str) -> Lag | None:
        """The newest of a query, by its id or its name; of its first source if it has several."""
        lags = self.lags(query)
        return lags[0] if lags else None

    def lags(self, query: str) -> list[Lag]:
        """The newest of a query, one for each of its sources that are ours."""
        for query_id, lags in list(self._lags.items()):
            if query in (query_id, lags[0].query_name):
                return lags
        return []

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        lags = []
        for source in progress.sources:
            behind = offsets_behind(source.endOffset, source.latestOffset)
            if behind is not None:
                lags.append(Lag(str(progress.id), progress.name, progress.batchId, behind))
        if lags:
            self._lags[str(progress.id)] = lags
        for lag in lags if self._on_lag is not None else ():
            assert self._on_lag is not None, lag
            self._on_lag(lag)
        if self._on_progress is not None:
            self._on_progress(json.dumps(with_lag(progress)))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing has come in, so nothing has changed."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._lags.pop(str(event.id), None)


def with_lag(progress: StreamingQueryProgress) -> dict[str, Any]:
    """What progress says, with the metrics and the description that the stock connector gives to
    its sources, for sources that read topics and have none."""
    document: dict[str, Any] = json.loads(progress.json)
    for source in document["sources"]:
        behind = _behind(source.get("endOffset"), source.get("latestOffset"))
        if behind is not None and not source.get("metrics"):
            source["metrics"] = metrics_of(behind)
            topics = sorted({topic for topic, _ in behind})
            source["description"] = f"TidelogV2[{', '.join(topics)}]"
    return document


def metrics_of(behind: dict[TopicPartition, int]) -> dict[str, str]:
    offsets = list(behind.values())
    if not offsets:
        return {}
    return {
        "minOffsetsBehindLatest": str(min(offsets)),
        "maxOffsetsBehindLatest": str(max(offsets)),
        "avgOffsetsBehindLatest": str(sum(offsets) / len(offsets)),
    }


def offsets_behind(end: str | None, latest: str | None) -> dict[TopicPartition, int] | None:
    """Per partition, from offsets as progress has them; None if they are not of topics."""
    try:
        return _behind(json.loads(end or ""), json.loads(latest or ""))
    except ValueError:
        return None


def _behind(end: Any, latest: Any) -> dict[TopicPartition, int] | None:
    read, there = _offsets(end), _offsets(latest)
    if read is None or there is None:
        return None
    return {where: max(0, offset - read.get(where, 0)) for where, offset in there.items()}


def _offsets(document: Any) -> Offsets | None:
    try:
        return from_document(document)
    except (ValueError, AttributeError, TypeError):
        return None
