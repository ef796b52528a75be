"""What Spark says of a batch, in our words: ranges of offsets, rows, lag."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from tidelog.spark.ranges import Offsets, TopicPartition, from_document

RANGES_SHOWN = 3
SKIPPED, DEAD_LETTERS = "skipped", "dead_letters"
"""What Spark observes of records that cannot be decoded: how many, under one of these names."""
RECORDS = "records"


class Batch(NamedTuple):
    """One micro-batch that is committed."""

    number: int
    rows_in: int
    rows_out: int | None
    """None: the sink does not say."""
    seconds: float
    rows_per_second: float
    start: Offsets
    end: Offsets
    latest: Offsets
    bad: tuple[str, int] | None = None
    """How many could not be decoded, and whether they were skipped or became dead letters."""

    @property
    def behind(self) -> int | None:
        """Offsets between what was read and where partitions end; None if that is unknown."""
        return sum(self.lag.values()) if self.latest else None

    @property
    def lag(self) -> Offsets:
        """The same for each partition."""
        return {
            where: max(0, offset - self.end.get(where, offset))
            for where, offset in self.latest.items()
        }

    def as_document(self) -> dict[str, Any]:
        return {
            "batch": self.number,
            "rows_in": self.rows_in,
            "rows_out": self.rows_out,
            "rows_per_second": round(self.rows_per_second, 1),
            "seconds": round(self.seconds, 3),
            "lag": self.behind,
            **({} if self.bad is None else {self.bad[0]: self.bad[1]}),
            "offsets": {f"{topic}-{index}": end for (topic, index), end in self.end.items()},
        }


def batch_of(progress: Mapping[str, Any]) -> Batch:
    """From the JSON of Spark's progress of a query."""
    sources = progress.get("sources") or []
    rows_out = int((progress.get("sink") or {}).get("numOutputRows", -1))
    bad = _bad(progress)
    if bad is not None and rows_out >= 0:
        rows_out -= bad[1]  # the sink was given them too
    return Batch(
        int(progress["batchId"]),
        int(progress.get("numInputRows") or 0),
        rows_out if rows_out >= 0 else None,
        float((progress.get("durationMs") or {}).get("triggerExecution", 0)) / 1000,
        float(progress.get("processedRowsPerSecond") or 0.0),
        _offsets(sources, "startOffset"),
        _offsets(sources, "endOffset"),
        _offsets(sources, "latestOffset"),
        bad,
    )


def _bad(progress: Mapping[str, Any]) -> tuple[str, int] | None:
    observed = progress.get("observedMetrics") or {}
    for name in (SKIPPED, DEAD_LETTERS):
        if name in observed:
            return name, int(observed[name].get(RECORDS) or 0)
    return None


def was_run(progress: Mapping[str, Any]) -> bool:
    """Spark also reports on batches that it did not begin because there was nothing new."""
    return "addBatch" in (progress.get("durationMs") or {})


def line(batch: Batch, target: str) -> str:
    """`batch 12 · orders-0 [0, 1041) → orders-per-minute · 1,041 in, 17 out · committed · 2.1 s`"""
    rows = f"{batch.rows_in:,} in"
    rows += f", {batch.rows_out:,} out" if batch.rows_out is not None else ""
    if batch.bad is not None and batch.bad[1]:
        rows += f", {batch.bad[1]:,} {batch.bad[0].replace('_', ' ')}"
    parts = [f"batch {batch.number}", f"{ranges(batch)} → {target}", rows, "committed"]
    parts.append(f"{batch.seconds:.1f} s")
    if batch.behind:
        parts.append(f"{batch.behind:,} behind")
    return " · ".join(parts)


def ranges(batch: Batch) -> str:
    """`orders-0 [0, 1041), orders-1 [0, 998) and 4 more`: the partitions that were read from."""
    read = [where for where, end in batch.end.items() if batch.start.get(where) != end]
    shown = [_range(batch, where) for where in sorted(read)[:RANGES_SHOWN]]
    more = f" and {len(read) - RANGES_SHOWN} more" if len(read) > RANGES_SHOWN else ""
    return (", ".join(shown) or "nothing new") + more


def _range(batch: Batch, where: TopicPartition) -> str:
    start = batch.start.get(where)
    return f"{where[0]}-{where[1]} [{'start' if start is None else start}, {batch.end[where]})"


def _offsets(sources: list[Mapping[str, Any]], name: str) -> Offsets:
    """Of all sources together; what is no document of ours counts as unknown."""
    found: Offsets = {}
    for source in sources:
        value = source.get(name)
        try:
            document = json.loads(value) if isinstance(value, str) else value
            found.update(from_document(document or {}))
        except (ValueError, AttributeError, TypeError):
            continue
    return found
