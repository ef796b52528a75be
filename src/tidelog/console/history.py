"""Figures of the last fifteen minutes, for the charts: sampled while somebody watches."""

from collections import deque
from collections.abc import Mapping
from typing import Any

from tidelog.console.metrics_text import (
    HISTOGRAMS,
    Buckets,
    buckets_in,
    lag_in,
    percentile_ms,
)

KEPT_SAMPLES = 900

Series = dict[str, list[list[float]]]


class History:
    """Rates from counters that nodes keep, and counts of events."""

    __slots__ = ("_before", "_buckets", "_counted", "_latest", "_rates", "series")

    def __init__(self) -> None:
        self.series: dict[str, deque[tuple[int, float]]] = {}
        self._before: dict[int, tuple[int, int, Mapping[str, int]]] = {}
        self._rates: dict[int, dict[str, float]] = {}
        self._latest: dict[str, dict[int, float]] = {}
        """By chart and node; the worst of them is shown."""
        self._buckets: dict[tuple[int, str], Buckets] = {}
        self._counted: dict[str, int] = {"isr_shrinks": 0, "isr_expands": 0, "elections": 0}

    @property
    def rates(self) -> dict[str, float]:
        """Of the whole cluster, per second."""
        names = ("in_records", "in_bytes", "out_bytes")
        return {name: sum(each.get(name, 0.0) for each in self._rates.values()) for name in names}

    def sample(self, node: int, summary: Mapping[str, Any], at_ms: int) -> None:
        traffic, stream = summary.get("traffic") or {}, int(summary.get("stream") or 0)
        before = self._before.get(node)
        self._before[node] = (at_ms, stream, traffic)
        if before is None or before[1] != stream or at_ms <= before[0]:
            self._rates.pop(node, None)
            return
        seconds = (at_ms - before[0]) / 1000
        self._rates[node] = {
            name: max(0, traffic.get(key, 0) - before[2].get(key, 0)) / seconds
            for name, key in _COUNTERS.items()
        }

    def answered(self, node: int, seconds: float) -> None:
        """How long a node took to answer: if it takes long, something is wrong."""
        self._latest.setdefault("canary_ms", {})[node] = seconds * 1000

    def read(self, node: int, text: str) -> None:
        """What `/metrics` of a node says."""
        lag = lag_in(text)
        if lag is not None:
            self._latest.setdefault("replication_lag", {})[node] = max(0.0, lag)
        for chart in HISTOGRAMS:
            buckets = buckets_in(text, chart)
            worst = percentile_ms(buckets, self._buckets.get((node, chart), {}))
            self._buckets[node, chart] = buckets
            if worst is not None:
                self._latest.setdefault(chart, {})[node] = worst

    def count(self, event: Mapping[str, Any]) -> None:
        if event["kind"] == "IsrChanged":
            grew = len(event["isr"]) > len(event["previous"])
            self._counted["isr_expands" if grew else "isr_shrinks"] += 1
        elif event["kind"] == "LeaderElected":
            self._counted["elections"] += 1

    def add(self, at_ms: int, figures: Mapping[str, float]) -> None:
        """One sample of everything. What was counted since the last one is told once."""
        counted, self._counted = self._counted, dict.fromkeys(self._counted, 0)
        worst = {name: max(values.values()) for name, values in self._latest.items()}
        self._latest.clear()
        for name, value in {**self.rates, **counted, **worst, **figures}.items():
            kept = self.series.setdefault(name, deque(maxlen=KEPT_SAMPLES))
            kept.append((at_ms, round(value, 3)))

    def since(self, at_ms: int) -> Series:
        return {
            name: [[at, value] for at, value in kept if at > at_ms]
            for name, kept in self.series.items()
        }


_COUNTERS = {"in_records": "records_in", "in_bytes": "bytes_in", "out_bytes": "bytes_out"}
