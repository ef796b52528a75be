"""Produce and consume over TLS: the same certificate, the same client, both systems in turn.

Clients and brokers talk to brokers over TLS, without a login; controllers stay on plain text.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tidelog.bench.compare import page_cache
from tidelog.bench.compare.findings import Findings
from tidelog.bench.compare.librdkafka import Librdkafka
from tidelog.bench.compare.load_clients import ConsumeJob, ProduceJob
from tidelog.bench.compare.produce_cases import BASE, KIB, MEGABYTE
from tidelog.bench.compare.system import Row, Running, Scale, System
from tidelog.bench.compare.warm_clusters import WarmClusters
from tidelog.cluster.free_ports import HOST
from tidelog.secure.home import SecureHome

SECTION = "tls"
PRODUCE = Row("tls.produce", "produce acks=all, 1 KiB, TLS, librdkafka", "MB/s", True, SECTION)
PRODUCE_CPU = Row("tls.produce.cpu", "processor of the brokers for that", "ms/MB", False, SECTION)
CONSUME = Row("tls.consume", "consume from the page cache, TLS, librdkafka", "MB/s", True, SECTION)
CONSUME_CPU = Row("tls.consume.cpu", "processor of the brokers for that", "ms/MB", False, SECTION)


class TlsSettings(NamedTuple):
    nodes: Mapping[str, str]
    clients: Mapping[str, str]
    """In librdkafka's words."""


def make_tls_settings(directory: Path) -> TlsSettings:
    """One key for all nodes of both systems. The listener keeps its name, PLAINTEXT, and gets
    another protocol: so no address has to be written anew."""
    from tidelog.secure.issuing import issue_to_node, make_authority  # noqa: PLC0415 - an extra

    home = SecureHome(directory)
    make_authority(home, "bench")
    files = issue_to_node(home, 1, [HOST, "localhost"])
    nodes = {
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.bundle),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.authority),
    }
    clients = {"security.protocol": "SSL", "ssl.ca.location": str(files.authority)}
    return TlsSettings(nodes, clients)


class OverTls:
    """A topic is written and read on warm clusters of three nodes."""

    __slots__ = ("_scale", "_tls", "_warm", "rows")

    name = SECTION

    def __init__(self, scale: Scale, warm: WarmClusters) -> None:
        self._scale = scale
        self._warm = warm
        self._tls: TlsSettings | None = None
        self.rows = (PRODUCE, PRODUCE_CPU, CONSUME, CONSUME_CPU)

    def measure(self, system: System, round_number: int) -> Mapping[str, float]:
        found = Findings()
        keys = tuple(row.key for row in self.rows)
        if self._tls is None:
            self._tls = make_tls_settings(self._warm.directory)
        with self._warm.running(system, self._tls.nodes, self._tls.clients) as cluster:
            found.take_all(keys, lambda: self._written_and_read(cluster, f"tls-{round_number}"))
        return found.values_or_raise()

    def _written_and_read(self, cluster: Running, topic: str) -> dict[str, float]:
        client, records = Librdkafka(), BASE.records(self._scale)
        servers, settings = cluster.bootstrap_servers, cluster.client_settings
        cluster.create_topic(topic, BASE.partitions)
        writing = ProduceJob(servers, topic, records, KIB, {**BASE.settings, **settings})
        reading = ConsumeJob(servers, topic, BASE.partitions, records, settings)
        page_cache.settle()
        written = _spent(cluster, records, lambda: client.produce(writing))
        read = _spent(cluster, records, lambda: client.consume(reading))
        cluster.delete_topic(topic)
        return dict(zip((row.key for row in self.rows), (*written, *read), strict=True))


def _spent(cluster: Running, records: int, work: Callable[[], float]) -> tuple[float, float]:
    """Megabytes per second, and what each of them cost the brokers in milliseconds of processor.
    Time that they would have used anyway counts too: it is a hundredth of it."""
    before = cluster.cpu_seconds()
    per_second = work()
    spent = cluster.cpu_seconds() - before
    return per_second * KIB / MEGABYTE, 1000 * spent / (records * KIB / MEGABYTE)
