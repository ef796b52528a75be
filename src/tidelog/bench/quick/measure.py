"""One round of the quick benchmark: a new cluster, all rows, and the limit right after."""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tidelog.bench.compare.client_process import run_client
from tidelog.bench.compare.latency import LINGER_MS
from tidelog.bench.compare.librdkafka import Librdkafka
from tidelog.bench.compare.load_clients import ConsumeJob, ProduceJob
from tidelog.bench.compare.tidelog_side import TidelogCluster, TidelogSystem
from tidelog.bench.compare.topics import Topics
from tidelog.bench.limit.limit_row import LIMITS, figures_of
from tidelog.bench.quick.rows import KIB, MB, Amount

SMALL_CLIENT = "tidelog.bench.compare.small_client"
PACED_CLIENT = "tidelog.bench.compare.paced_client"
PRODUCER = {"acks": "all"}
PARTITIONS = 6
"""Two leaders on each broker, as in the base case of the whole comparison."""
SHORT_BYTES = 100
RATE = 1_000.0
SETTLE_S = 0.5
"""New brokers have a few things to tell each other."""

OnStep = Callable[[str], None]


class Spent(NamedTuple):
    """What a client got out of the brokers, and what it cost them."""

    per_second: float
    """Records."""
    cpu_seconds: float


class Round:
    """The rows of one round, on one cluster."""

    __slots__ = ("_amount", "_cluster", "_idle_share", "_on_step", "values")

    def __init__(self, cluster: TidelogCluster, amount: Amount, on_step: OnStep) -> None:
        self._cluster = cluster
        self._amount = amount
        self._on_step = on_step
        self._idle_share = 0.0
        self.values: dict[str, float] = {}

    def measure(self) -> None:
        self.values["start"] = self._cluster.ready_after_s
        self.values["rss-idle"] = self._cluster.rss_bytes() / MB
        self._idle()
        self._large()
        self._short()
        self._small(1)
        self._small(32)
        self._latency()
        self.values["rss-load"] = self._cluster.rss_bytes() / MB

    def measure_synced(self, other: "Round") -> None:
        """What acknowledged means by default, on a cluster that does so. Idle, it is like the
        other one."""
        self._idle_share = other._idle_share
        time.sleep(SETTLE_S)
        topic = self._topic("produce-1k-fsync")
        records = self._amount.synced_records
        self._put(topic, self._produced(topic, records, KIB), records, KIB)

    def _idle(self) -> None:
        self._on_step("idle")
        time.sleep(SETTLE_S)
        seconds = self._amount.idle_seconds
        before = self._cluster.cpu_seconds()
        time.sleep(seconds)
        self._idle_share = (self._cluster.cpu_seconds() - before) / seconds
        self.values["cpu-idle"] = 1000 * self._idle_share

    def _large(self) -> None:
        """Written and then read, so the read is from the page cache."""
        topic = self._topic("produce-1k")
        records = self._amount.large_records
        self._put("produce-1k", self._produced(topic, records, KIB), records, KIB)
        self._on_step("consume")
        job = ConsumeJob(
            self._cluster.bootstrap_servers, topic, PARTITIONS, records, self._settings
        )
        self._put("consume", self._spent(lambda: Librdkafka().consume(job)), records, KIB)
        self._cluster.delete_topic(topic)

    def _short(self) -> None:
        topic = self._topic("produce-100")
        records = self._amount.short_records
        spent = self._produced(topic, records, SHORT_BYTES)
        self._put("produce-100", spent, records, SHORT_BYTES)
        self._cluster.delete_topic(topic)

    def _small(self, connections: int) -> None:
        """Connections are shared out among partitions, each to the leader of its own."""
        key, seconds = f"small-{connections}", self._amount.small_seconds
        topic = self._topic(key)
        topics = Topics(self._cluster.bootstrap_servers, self._settings)
        leaders = topics.leader_addresses(topic)
        partitions = [number % PARTITIONS for number in range(connections)]
        job = {
            "settings": self._settings,
            "topic": topic,
            "targets": [[*leaders[partition], partition] for partition in partitions],
            "acks": -1,
            "record_bytes": SHORT_BYTES,
            "warm_up_s": 0.0,  # the brokers were busy a moment ago, and would be paid for it
            "seconds": seconds,
        }
        spent = self._spent(lambda: float(run_client(SMALL_CLIENT, job)["per_second"]))
        self.values[key] = spent.per_second
        self.values[f"cpu-{key}"] = spent.cpu_seconds / (spent.per_second * seconds) * 1e6

    def _latency(self) -> None:
        job = {
            "bootstrap_servers": self._cluster.bootstrap_servers,
            "settings": self._settings,
            "topic": self._topic("e2e"),
            "partitions": PARTITIONS,
            "record_bytes": KIB,
            "linger_ms": LINGER_MS,
            "rate": RATE,
            "warm_up_s": self._amount.timed_seconds / 4,
            "seconds": self._amount.timed_seconds,
        }
        found = run_client(PACED_CLIENT, job)
        self.values["e2e-p50"] = found["p50"]
        self.values["e2e-p99"] = found["p99"]

    @property
    def _settings(self) -> dict[str, str]:
        """Of every client."""
        return dict(self._cluster.client_settings)

    def _topic(self, name: str) -> str:
        self._on_step(name)
        self._cluster.create_topic(name, PARTITIONS)
        return name

    def _produced(self, topic: str, records: int, record_bytes: int) -> Spent:
        servers = self._cluster.bootstrap_servers
        job = ProduceJob(servers, topic, records, record_bytes, {**PRODUCER, **self._settings})
        return self._spent(lambda: Librdkafka().produce(job))

    def _spent(self, work: Callable[[], float]) -> Spent:
        """Without what they would have used anyway: a slow minute must not count."""
        before, begin = self._cluster.cpu_seconds(), time.monotonic()
        per_second = work()
        idle = self._idle_share * (time.monotonic() - begin)
        return Spent(per_second, max(0.0, self._cluster.cpu_seconds() - before - idle))

    def _put(self, key: str, spent: Spent, records: int, record_bytes: int) -> None:
        self.values[key] = spent.per_second * record_bytes / MB
        self.values[f"cpu-{key}"] = spent.cpu_seconds * 1000 / (records * record_bytes / MB)


def measure_round(amount: Amount, on_step: OnStep, *, secure: bool = False) -> dict[str, float]:
    """Row key → value. SystemFailed when the cluster or a client did not do its work."""
    start = TidelogSystem().start_secured if secure else TidelogSystem().start
    on_step("start")
    with start() as cluster:
        current = Round(cluster, amount, on_step)
        current.measure()
    on_step("start, synced")
    with start(settings={"ack.durability": "fsync"}) as cluster:
        synced = Round(cluster, amount, on_step)
        synced.measure_synced(current)
    return {**current.values, **synced.values}


def measure_limits(amount: Amount, on_step: OnStep) -> dict[str, float]:
    """Row key → what the machine can do. CompilerMissing or LimitFailed when it is not known."""
    values: dict[str, float] = {}
    for key in ("produce-1k", "produce-1k-fsync", "produce-100", "consume", "small-1", "small-32"):
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
