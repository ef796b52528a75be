"""One round of the quick benchmark: a new cluster, all rows, and the limit right after."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tidelog.bench.compare.client_process import run_client
from tidelog.bench.compare.librdkafka import Librdkafka
from tidelog.bench.compare.load_clients import ConsumeJob, ProduceJob
from tidelog.bench.compare.tidelog_side import TidelogCluster, TidelogSystem
from tidelog.bench.failover import share
from tidelog.bench.limit.limit_row import LIMITS, figures_of
from tidelog.bench.quick.rows import KIB, MB, Amount

CLIENT = "tidelog.bench.quick.client"
PRODUCER = {"acks": "all"}
PARTITIONS = 6
"""Two leaders on each broker, as in the base case of the whole comparison."""
SHORT_BYTES = 100
RATE = 1_000

OnStep = Callable[[str], None]


class Spent(NamedTuple):
    """What a client got out of the brokers, and what it cost them."""

    per_second: float
    """Records."""
    cpu_seconds: float


class Round:
    """The rows of one round, on one cluster."""

    __slots__ = ("_amount", "_cluster", "_on_step", "values")

    def __init__(self, cluster: TidelogCluster, amount: Amount, on_step: OnStep) -> None:
        self._cluster = cluster
        self._amount = amount
        self._on_step = on_step
        self.values: dict[str, float] = {}

    def measure(self) -> None:
        self.values["start"] = self._cluster.ready_after_s
        self.values["rss-idle"] = self._cluster.rss_bytes() / MB
        self._large()
        self._short()
        self._small(1, self._amount.small_alone)
        self._small(32, self._amount.small_together)
        self._latency()
        self.values["rss-load"] = self._cluster.rss_bytes() / MB

    def _large(self) -> None:
        """Written and then read, so the read is from the page cache."""
        topic = self._topic("produce-1k", PARTITIONS)
        records = self._amount.large_records
        self._put("produce-1k", self._produced(topic, records, KIB), records, KIB)
        self._on_step("consume")
        job = ConsumeJob(self._cluster.bootstrap_servers, topic, PARTITIONS, records)
        self._put("consume", self._spent(lambda: Librdkafka().consume(job)), records, KIB)
        self._cluster.delete_topic(topic)

    def _short(self) -> None:
        topic = self._topic("produce-100", PARTITIONS)
        records = self._amount.short_records
        spent = self._produced(topic, records, SHORT_BYTES)
        self._put("produce-100", spent, records, SHORT_BYTES)
        self._cluster.delete_topic(topic)

    def _small(self, connections: int, records: int) -> None:
        key = f"small-{connections}"
        sizes = {"records": records, "record_bytes": SHORT_BYTES, "connections": connections}
        job = {**self._job("small", self._topic(key)), **sizes}
        spent = self._spent(lambda: records / float(run_client(CLIENT, job)["seconds"]))
        self.values[key] = spent.per_second
        self.values[f"cpu-{key}"] = spent.cpu_seconds / records * 1e6

    def _latency(self) -> None:
        sizes = {"records": self._amount.timed_records, "record_bytes": SHORT_BYTES, "rate": RATE}
        job = {**self._job("latency", self._topic("e2e")), **sizes}
        found: list[float] = run_client(CLIENT, job)["latencies_ms"]
        self.values["e2e-p50"] = share(found, 0.5)
        self.values["e2e-p99"] = share(found, 0.99)

    def _topic(self, name: str, partitions: int = 1) -> str:
        self._on_step(name)
        self._cluster.create_topic(name, partitions)
        return name

    def _job(self, work: str, topic: str) -> dict[str, object]:
        servers = self._cluster.bootstrap_servers
        return {"work": work, "bootstrap_servers": servers, "topic": topic}

    def _produced(self, topic: str, records: int, record_bytes: int) -> Spent:
        servers = self._cluster.bootstrap_servers
        job = ProduceJob(servers, topic, records, record_bytes, PRODUCER)
        return self._spent(lambda: Librdkafka().produce(job))

    def _spent(self, work: Callable[[], float]) -> Spent:
        before = self._cluster.cpu_seconds()
        per_second = work()
        return Spent(per_second, self._cluster.cpu_seconds() - before)

    def _put(self, key: str, spent: Spent, records: int, record_bytes: int) -> None:
        self.values[key] = spent.per_second * record_bytes / MB
        self.values[f"cpu-{key}"] = spent.cpu_seconds * 1000 / (records * record_bytes / MB)


def measure_round(amount: Amount, on_step: OnStep) -> dict[str, float]:
    """Row key → value. SystemFailed when the cluster or a client did not do its work."""
    on_step("start")
    with TidelogSystem().start() as cluster:
        current = Round(cluster, amount, on_step)
        current.measure()
        return current.values


def measure_limits(amount: Amount, on_step: OnStep) -> dict[str, float]:
    """Row key → what the machine can do. CompilerMissing or LimitFailed when it is not known."""
    values: dict[str, float] = {}
    for key in ("produce-1k", "produce-100", "consume", "small-1", "small-32"):
        on_step(f"limit of {key}")
        case = LIMITS[f"limit-{key}"]
        figures = figures_of(case, share=amount.limit_share)
        values[key] = case.value_in(figures)
        values[f"cpu-{key}"] = _cpu_cost(figures, values[key], is_small=key.startswith("small"))
    on_step("limit of e2e")
    figures = figures_of(LIMITS["limit-e2e-p50"], share=amount.limit_share)
    for key in ("e2e-p50", "e2e-p99"):
        values[key] = LIMITS[f"limit-{key}"].value_in(figures)
    return values


def _cpu_cost(figures: Mapping[str, float], per_second: float, *, is_small: bool) -> float:
    """Milliseconds per MB, or microseconds per request."""
    moved = per_second * figures["seconds"]
    return figures["cpu_seconds"] / moved * (1e6 if is_small else 1e3)
