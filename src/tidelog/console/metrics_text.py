"""The few figures that only `/metrics` of a node has, read off its text."""

from collections.abc import Iterable, Mapping

LAG = "kafka_server_replicafetchermanager_maxlag"
HISTOGRAMS = {
    "loop_delay_ms": ("tidelog_event_loop_delay_seconds_bucket{", "}"),
    "produce_p99_ms": ("tidelog_request_seconds_bucket{", 'request="Produce"}'),
    "fetch_p99_ms": ("tidelog_request_seconds_bucket{", 'request="Fetch"}'),
}
"""By chart: how the lines of its buckets begin, and how their labels end."""
SHARE = 0.99

Buckets = dict[float, float]
"""By upper bound in seconds: how many were not above it, since the start."""


def lag_in(text: str) -> float | None:
    for line in text.splitlines():
        if line.startswith(f"{LAG} "):
            return float(line.rpartition(" ")[2])
    return None


def buckets_in(text: str, chart: str) -> Buckets:
    name, labels_end = HISTOGRAMS[chart]
    found: Buckets = {}
    for line in text.splitlines():
        labels, _, count = line.rpartition(" ")
        if line.startswith(name) and labels.endswith(labels_end):
            bound = labels.partition('le="')[2].partition('"')[0]
            found[float(bound)] = float(count)
    return found


def percentile_ms(now: Buckets, before: Mapping[float, float]) -> float | None:
    """The bound below which 99 of 100 lie, of what came since; None if nothing came."""
    counts = [(bound, count - before.get(bound, 0.0)) for bound, count in sorted(now.items())]
    total = counts[-1][1] if counts else 0.0
    if total <= 0:
        return None
    finite = max((bound for bound, _ in counts if bound != float("inf")), default=0.0)
    return 1000 * _bound_of(counts, SHARE * total, finite)


def _bound_of(counts: Iterable[tuple[float, float]], wanted: float, most: float) -> float:
    return next((min(bound, most) for bound, count in counts if count >= wanted), most)
