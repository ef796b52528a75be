"""The two queries of the demo: kept going, and how far they are."""

import json
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.cli.demo.spark_session import told
from tidelog.spark.failure import words_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

POLL_SECONDS = 0.1
RESTARTS_MAX = 3


class Batch(NamedTuple):
    """One micro-batch of a query, from its progress."""

    number: int
    began: float
    """Seconds since 1970."""
    seconds: float
    rows: int


class Flow(NamedTuple):
    """What a query did from its start to its end."""

    batches: list[Batch]

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.batches)

    @property
    def with_rows(self) -> list[Batch]:
        return [each for each in self.batches if each.rows]

    @property
    def rows_per_second_max(self) -> float:
        """Of the fastest batch: the others had no more to read."""
        return max((each.rows / max(each.seconds, 1e-9) for each in self.batches), default=0.0)

    @property
    def median_seconds(self) -> float:
        times = sorted(each.seconds for each in self.with_rows)
        return times[len(times) // 2] if times else 0.0


class KeptQuery:
    """A query that is started again when Spark fails, as one would in production: its checkpoint
    knows where it was, and both sinks know what they have. What we refuse ourselves ends it."""

    __slots__ = ("_past", "_query", "_start", "name", "restarts")

    def __init__(self, name: str, start: Callable[[], "StreamingQuery"]) -> None:
        self.name = name
        self._start = start
        self._query = start()
        self._past: dict[int, Batch] = {}
        self.restarts = 0

    def check(self) -> None:
        """TidelogError if it failed and may not be started again."""
        failure = self._query.exception()
        if failure is None:
            return
        if words_of(failure) is not None or self.restarts >= RESTARTS_MAX:
            raise told(failure)
        self._past.update(_batches(self._query))
        self._query = self._start()
        self.restarts += 1

    def wait_until(self, done: Callable[["KeptQuery"], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not done(self):
            self.check()
            if time.monotonic() >= deadline:
                where = self.last and self.last["sources"][0]["endOffset"]
                raise TimeoutError(f"{self.name}: after {seconds:.0f} s only at {where}")
            time.sleep(POLL_SECONDS)

    @property
    def last(self) -> dict[str, Any] | None:
        """The progress of its last batch."""
        progress = self._query.lastProgress
        return None if progress is None else as_dictionary(progress)

    @property
    def watermark_ms(self) -> int:
        """Up to when its last batch took windows to be over."""
        text = (self.last or {}).get("eventTime", {}).get("watermark")
        return int(datetime.fromisoformat(text).timestamp() * 1000) if text else 0

    def has_read(self, topic: str, ends: Mapping[int, int]) -> bool:
        """Whether its last batch ended where the partitions end."""
        offsets = self.last["sources"][0]["endOffset"] if self.last is not None else None
        reached = (offsets or {}).get(topic, {})
        return all(reached.get(str(partition), 0) >= end for partition, end in ends.items())

    def flow(self) -> Flow:
        batches = {**self._past, **_batches(self._query)}
        return Flow([batches[number] for number in sorted(batches)])

    def stop(self) -> None:
        self._query.stop()


def _batches(query: "StreamingQuery") -> dict[int, Batch]:
    batches = {}
    for each in query.recentProgress:
        progress = as_dictionary(each)
        if "addBatch" in progress["durationMs"]:  # else it looked, and found nothing
            batches[progress["batchId"]] = Batch(
                progress["batchId"],
                datetime.fromisoformat(progress["timestamp"]).timestamp(),
                progress["durationMs"]["triggerExecution"] / 1000,
                progress["numInputRows"],
            )
    return batches


def as_dictionary(progress: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(progress.json)
    return document
