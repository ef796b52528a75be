"""Megabytes of values per second: written in every way that matters, and read back.

One warm cluster serves all cases of the same durability, each with a topic of its own.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from tidelog.bench.compare import page_cache
from tidelog.bench.compare.findings import Findings
from tidelog.bench.compare.librdkafka import Librdkafka
from tidelog.bench.compare.load_clients import ConsumeJob, LoadClient, ProduceJob
from tidelog.bench.compare.produce_cases import (
    BASE,
    CASES,
    FSYNC,
    JAVA,
    KIB,
    LIBRDKAFKA,
    MEGABYTE,
    SECTION,
    SIZES_MB,
    STOCK,
    SYNCED,
    Case,
)
from tidelog.bench.compare.system import Row, Running, Scale, System
from tidelog.bench.compare.warm_clusters import WarmClusters


class Reading(NamedTuple):
    """One way of reading a topic of 1 KiB records as a whole."""

    client: str
    cold: bool

    @property
    def row(self) -> Row:
        where = "cold" if self.cold else "cache"
        title = f"consume {'from the disk' if self.cold else 'from the page cache'}, 1 KiB"
        limit_key = "limit-consume-cold" if self.cold else "limit-consume"
        key = f"consume.{self.client}.{where}"
        return Row(key, f"{title}, 6 partitions, {self.client}", "MB/s", True, SECTION, limit_key)


READINGS = (Reading(JAVA, False), Reading(LIBRDKAFKA, False), Reading(LIBRDKAFKA, True))
READ_BACK = Row(
    "read-back.records", "records read back, each as it was written", "records", True, SECTION
)


class Throughput:
    """Produce and consume, by one client after the other."""

    __slots__ = ("_clients", "_keys", "_librdkafka", "_scale", "_warm", "rows")

    name = SECTION

    def __init__(
        self,
        scale: Scale,
        java: LoadClient | None,
        warm: WarmClusters,
        keys: frozenset[str] | None = None,
    ) -> None:
        """Without Kafka's tools there are no rows of the Java client."""
        self._scale = scale
        self._warm = warm
        self._librdkafka = Librdkafka()
        self._clients: dict[str, LoadClient] = {LIBRDKAFKA: self._librdkafka}
        if java is not None:
            self._clients[JAVA] = java
        rows = [each.row for each in (*CASES, *READINGS) if each.client in self._clients]
        rows.append(READ_BACK)
        self.rows = tuple(row for row in rows if keys is None or row.key in keys)
        self._keys = frozenset(row.key for row in self.rows)

    def only(self, keys: frozenset[str]) -> "Throughput":
        return Throughput(self._scale, self._clients.get(JAVA), self._warm, keys)

    def measure(self, system: System, round_number: int) -> Mapping[str, float]:
        found = Findings()
        for durability in (STOCK, FSYNC):
            cases = [each for each in self._cases() if each.durability == durability]
            readings = self._readings() if durability == STOCK else []
            reads_back = durability == STOCK and READ_BACK.key in self._keys
            if not (cases or readings or reads_back):
                continue
            settings = SYNCED[system.name] if durability == FSYNC else None
            with self._warm.running(system, settings) as cluster:
                for case in cases:
                    topic = f"{case.key}-{round_number}"
                    found.take(case.key, partial(self._produce, cluster, case, topic))
                if readings or reads_back:
                    self._read(cluster, f"read-{round_number}", readings, found)
        return found.values_or_raise()

    def _cases(self) -> list[Case]:
        return [each for each in CASES if each.key in self._keys]

    def _readings(self) -> list[Reading]:
        return [each for each in READINGS if each.row.key in self._keys]

    def _produce(self, cluster: Running, case: Case, topic: str) -> float:
        cluster.create_topic(topic, case.partitions)
        servers, records = cluster.bootstrap_servers, case.records(self._scale)
        job = ProduceJob(servers, topic, records, case.record_bytes, case.settings)
        page_cache.settle()
        per_second = self._clients[case.client].produce(job)
        cluster.delete_topic(topic)
        return per_second * case.record_bytes / MEGABYTE

    def _read(
        self, cluster: Running, topic: str, readings: Sequence[Reading], found: Findings
    ) -> None:
        """All readings are of one topic, filled before; whoever reads it back makes sure that
        it holds what was written."""
        cluster.create_topic(topic, BASE.partitions)
        records = SIZES_MB[self._scale]["read"] * MEGABYTE // KIB
        servers = cluster.bootstrap_servers
        filled = ProduceJob(servers, topic, records, KIB, BASE.settings)
        self._librdkafka.produce(filled)
        job = ConsumeJob(servers, topic, BASE.partitions, records)
        if READ_BACK.key in self._keys:
            found.take(READ_BACK.key, lambda: float(self._librdkafka.read_back(job, KIB)))
        for reading in readings:
            found.take(reading.row.key, partial(self._consume, cluster, reading, job))
        cluster.delete_topic(topic)

    def _consume(self, cluster: Running, reading: Reading, job: ConsumeJob) -> float:
        if reading.cold:
            page_cache.evict(cluster.log_dirs())
        return self._clients[reading.client].consume(job) * KIB / MEGABYTE
