"""Spark's part of the demo: a session of its own, two queries, and how far they are."""

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.spark.failure import TidelogError, words_of
from tidelog.spark.quiet import says_into
from tidelog.spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POLL_SECONDS = 0.1
STOP_WITHIN_SECONDS = 20
PROGRESS_KEPT = 2_000
QUICK_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
"""Two minutes are too short for the optimizing compiler to earn its keep."""


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
    def rows_per_second(self) -> float:
        """While there was something to do."""
        return self.rows / max(sum(each.seconds for each in self.with_rows), 1e-9)

    @property
    def median_seconds(self) -> float:
        times = sorted(each.seconds for each in self.with_rows)
        return times[len(times) // 2] if times else 0.0


@contextmanager
def spark_in(home: Path) -> Iterator["SparkSession"]:
    """A session whose files and words stay in this directory. Its JVM is gone at the end."""
    temporary = home / "spark"
    temporary.mkdir()
    conf = {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"{QUICK_START} -Djava.io.tmpdir={temporary}",
        "spark.python.authenticate.socketTimeout": "60s",  # machines that do much else
        "spark.local.dir": str(temporary),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.numRecentProgressUpdates": str(PROGRESS_KEPT),
        "spark.sql.warehouse.dir": str(temporary / "warehouse"),
    }
    with says_into(home / "spark.log"):
        session = open_session("tidelog demo", conf=conf)
    try:
        yield session
    finally:
        _end(session)


def _end(session: "SparkSession") -> None:
    """Also the JVM, which would live as long as we do."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    session.stop()
    process = getattr(gateway, "proc", None)
    if gateway is not None and process is not None:
        gateway.shutdown()
        process.stdin.close()
        try:
            process.wait(STOP_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        SparkContext._gateway = SparkContext._jvm = None


def wait_for(query: "StreamingQuery", done: Any, what: str, seconds: float) -> None:
    """Until `done(progress)` is so for the last batch; TidelogError if the query failed."""
    deadline = time.monotonic() + seconds
    while True:
        check(query)
        progress = progress_of(query)
        if progress is not None and done(progress):
            return
        if time.monotonic() >= deadline:
            where = progress and progress["sources"][0]["endOffset"]
            raise TimeoutError(f"{what} is not through after {seconds:.0f} s, only at {where}")
        time.sleep(POLL_SECONDS)


def check(query: "StreamingQuery") -> None:
    failure = query.exception()
    if failure is not None:
        words = words_of(failure)
        what, _, advice = (words or f"Spark says: {first_line(failure)}; see its log").rpartition(
            "; "
        )
        raise TidelogError(what, advice)


def first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), repr(error))


def progress_of(query: "StreamingQuery") -> dict[str, Any] | None:
    last = query.lastProgress
    return None if last is None else as_dictionary(last)


def as_dictionary(progress: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(progress.json)
    return document


def covers(progress: Mapping[str, Any], ends: Mapping[int, int], topic: str) -> bool:
    """Whether a batch ended where the partitions end."""
    text = progress["sources"][0]["endOffset"]
    offsets = (json.loads(text) if isinstance(text, str) else text) or {}
    reached = offsets.get(topic, {})
    return all(reached.get(str(partition), 0) >= end for partition, end in ends.items())


def watermark_ms(progress: Mapping[str, Any]) -> int:
    """Up to when a batch took windows to be over."""
    text = progress.get("eventTime", {}).get("watermark")
    return int(datetime.fromisoformat(text).timestamp() * 1000) if text else 0


def flow_of(query: "StreamingQuery") -> Flow:
    batches: dict[int, Batch] = {}
    for each in query.recentProgress:
        progress = as_dictionary(each)
        if "addBatch" not in progress["durationMs"]:
            continue  # looked, and found nothing
        batches[progress["batchId"]] = Batch(
            progress["batchId"],
            datetime.fromisoformat(progress["timestamp"]).timestamp(),
            progress["durationMs"]["triggerExecution"] / 1000,
            progress["numInputRows"],
        )
    return Flow(list(batches.values()))


def log_tail(home: Path, lines: int = 8) -> list[str]:
    path = home / "spark.log"
    return path.read_text("utf-8", "replace").splitlines()[-lines:] if path.exists() else []
