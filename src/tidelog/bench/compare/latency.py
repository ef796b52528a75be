"""From the moment a record is due at its writer until its reader has it.

At 1,000 records a second, and at half of the most that the slower of the systems carries: both get
the same load, or the faster would be punished for being so.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from tidelog.bench.compare.client_process import Job, run_client
from tidelog.bench.compare.findings import Findings
from tidelog.bench.compare.system import Row, Running, Scale, System
from tidelog.bench.compare.warm_clusters import WarmClusters

MODULE: Final = "tidelog.bench.compare.paced_client"
SECTION = "latency"
RECORD_BYTES = 1024
PARTITIONS = 6
LINGER_MS = 5
"""What librdkafka and the Java client come with. Without it each record is a request of its own,
and the rows measure how many requests a system takes: those have a name of their own."""
STEADY_RATE = 1_000.0
SHARES = {"p50": "p50", "p99": "p99", "p999": "p99.9"}


class Times(NamedTuple):
    warm_up_s: float
    seconds: float
    unpaced_s: float
    """To find the maximum."""
    one_by_one: int
    """How many records EndToEndLatency sends."""


TIMES: Mapping[Scale, Times] = {
    Scale.TINY: Times(0.2, 0.3, 0.3, 20),
    Scale.QUICK: Times(0.5, 3.0, 1.0, 500),
    Scale.FULL: Times(1.0, 5.0, 2.0, 2_000),
}


def _rows(kind: str, words: str, *, has_limit: bool) -> tuple[Row, ...]:
    return tuple(
        Row(
            f"latency.{kind}.{share}",
            f"end to end {shown}, {words}",
            "ms",
            False,
            SECTION,
            f"limit-e2e-{share}" if has_limit else None,
        )
        for share, shown in SHARES.items()
    )


STEADY = _rows("1000", "1,000 records/s, acks=all", has_limit=False)
AT_ONCE = _rows("1000-linger-0", "1,000 records/s, linger.ms=0, acks=all", has_limit=True)
HALF = _rows("half", "half of the maximum, acks=all", has_limit=False)
HALF_RATE = Row("latency.half.rate", "the rate of that, for both", "records/s", True, SECTION)
ONE_BY_ONE = Row(
    "latency.java.mean", "end to end mean, one by one (EndToEndLatency)", "ms", False, SECTION
)


class OneByOne(Protocol):
    """Kafka's EndToEndLatency."""

    def end_to_end_ms(
        self, bootstrap_servers: str, topic: str, records: int, size: int
    ) -> float: ...


class Latency:
    """Writer and reader in one process, on one clock."""

    __slots__ = ("_half_rate", "_java", "_scale", "_systems", "_warm", "rows")

    name = SECTION

    def __init__(
        self,
        scale: Scale,
        systems: Sequence[System],
        java: OneByOne | None,
        warm: WarmClusters,
        keys: frozenset[str] | None = None,
    ) -> None:
        """All systems must be known: half of the maximum is the same for all."""
        self._scale = scale
        self._systems = systems
        self._java = java
        self._warm = warm
        self._half_rate: float | None = None
        rows = [*STEADY, *AT_ONCE, *HALF, HALF_RATE, *([] if java is None else [ONE_BY_ONE])]
        self.rows = tuple(row for row in rows if keys is None or row.key in keys)

    def only(self, keys: frozenset[str]) -> "Latency":
        return Latency(self._scale, self._systems, self._java, self._warm, keys)

    def measure(self, system: System, round_number: int) -> Mapping[str, float]:
        found = Findings()
        if self._wants(*HALF, HALF_RATE) and self._half_rate is None:
            self._half_rate = min(self._maximum(each) for each in self._systems) / 2
        with self._warm.running(system) as cluster:
            if self._wants(*STEADY):
                topic = f"steady-{round_number}"
                self._take(found, STEADY, partial(self._paced, cluster, topic, STEADY_RATE))
            if self._wants(*AT_ONCE):
                topic = f"at-once-{round_number}"
                at_once = partial(self._paced, cluster, topic, STEADY_RATE, linger_ms=0)
                self._take(found, AT_ONCE, at_once)
            if self._half_rate is not None:
                topic, rate = f"half-{round_number}", self._half_rate
                self._take(found, HALF, partial(self._paced, cluster, topic, rate))
                found.take(HALF_RATE.key, lambda: rate)
            if self._java is not None and self._wants(ONE_BY_ONE):
                topic = f"one-by-one-{round_number}"
                found.take(ONE_BY_ONE.key, partial(self._one_by_one, cluster, topic, self._java))
        return found.values_or_raise()

    def _wants(self, *rows: Row) -> bool:
        return any(row in self.rows for row in rows)

    def _take(self, found: Findings, rows: tuple[Row, ...], measured: Callable[[], Job]) -> None:
        keys = tuple(row.key for row in rows)
        found.take_all(keys, lambda: dict(zip(keys, measured().values(), strict=True)))

    def _paced(
        self, cluster: Running, topic: str, rate: float | None, *, linger_ms: int = LINGER_MS
    ) -> Job:
        """Percentiles in the order of the rows, or the maximum if there is no rate."""
        cluster.create_topic(topic, PARTITIONS)
        times = TIMES[self._scale]
        job = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "settings": dict(cluster.client_settings),
            "topic": topic,
            "partitions": PARTITIONS,
            "record_bytes": RECORD_BYTES,
            "linger_ms": linger_ms,
            "rate": rate,
            "warm_up_s": times.warm_up_s,
            "seconds": times.unpaced_s if rate is None else times.seconds,
        }
        found = run_client(MODULE, job)
        cluster.delete_topic(topic)
        return found

    def _maximum(self, system: System) -> float:
        with self._warm.running(system) as cluster:
            return float(self._paced(cluster, "maximum", None)["per_second"])

    def _one_by_one(self, cluster: Running, topic: str, java: OneByOne) -> float:
        cluster.create_topic(topic, 1)
        records = TIMES[self._scale].one_by_one
        found = java.end_to_end_ms(cluster.bootstrap_servers, topic, records, RECORD_BYTES)
        cluster.delete_topic(topic)
        return found
