"""Metrics in Prometheus' text format, read off the node's state when they are asked for.

Names are those that jmx_exporter's rules give Kafka's own beans, so boards made for Kafka work;
what Kafka has no name for begins with `tidelog_`. A partition has series of its own only while it
is not healthy: forty thousand partitions are not worth minutes of every scrape.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tidelog.host.findings import Finding
from tidelog.host.histogram import BOUNDS_S, Histogram
from tidelog.observe.counts import EventCounts, LoopDelay
from tidelog.observe.stream import EventStream
from tidelog.observe.traffic import Traffic
from tidelog.observe.views import (
    FOLLOWER,
    ConnectionsView,
    ControllerView,
    LogDirView,
    NodeView,
    PartitionView,
)

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
REPLICAS = "kafka_server_replicamanager_"
CONTROLLER = "kafka_controller_kafkacontroller_"
TOPICS = "kafka_server_brokertopicmetrics_"
THROTTLED = "tidelog_quota_throttled_"


class Sources(NamedTuple):
    view: NodeView
    stream: EventStream
    counts: EventCounts
    loop_delay: LoopDelay
    own: Callable[[], Mapping[str, int]]
    """Counters of the parts that observe: `journal_lines`, `http_requests`, …"""


class NodeCollector(Collector):
    """Everything at once, each time."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def describe(self) -> Iterator[Metric]:
        """Nothing in advance: the names depend on what the node is."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        view = self._sources.view
        partitions = list(view.partitions())
        yield from replica_metrics(partitions)
        yield from self._isr_changes()
        controller = view.controller()
        if controller is not None:
            yield from controller_metrics(controller)
        yield from traffic_metrics(view.traffic())
        yield by_label(
            "kafka_network_requestmetrics_requests",
            "Requests by API.",
            "request",
            view.requests(),
        )
        yield request_times_metric(view.request_times())
        yield from troubled_partitions(partitions)
        yield findings_metric(view.findings())
        yield from log_dir_metrics(view.log_dirs())
        yield from self._quorum_and_work(partitions)
        yield from self._connections()
        yield from self._event_metrics()

    def _isr_changes(self) -> Iterator[Metric]:
        counts = self._sources.counts
        yield counter(f"{REPLICAS}isrshrinks", "Times an ISR lost members.", counts.isr_shrinks)
        yield counter(f"{REPLICAS}isrexpands", "Times an ISR gained members.", counts.isr_expands)
        yield counter(
            "kafka_controller_controllerstats_uncleanleaderelections",
            "Unclean leader elections by this active controller.",
            counts.unclean_elections,
        )

    def _quorum_and_work(self, partitions: list[PartitionView]) -> Iterator[Metric]:
        view = self._sources.view
        quorum, work = view.quorum(), view.work()
        for name, help_text, value in (
            ("quorum_leader", "Node that leads the metadata quorum; -1 if none.", quorum.leader_id),
            ("quorum_epoch", "Leader epoch of the metadata quorum.", quorum.leader_epoch),
            (
                "metadata_high_watermark",
                "High watermark of the metadata log.",
                quorum.high_watermark,
            ),
            ("metadata_applied_offset", "Metadata this node has applied.", quorum.applied_offset),
            ("parked_fetches", "Fetches that wait for records.", work.parked_fetches),
        ):
            yield gauge(f"tidelog_{name}", help_text, value)
        yield gauge(
            "tidelog_parked_produces",
            "Produces that wait for the high watermark.",
            sum(each.parked_produces for each in partitions),
        )
        yield gauge(
            "tidelog_node_may_serve",
            "1 if /healthz would answer 200.",
            int(view.health().serves),
        )
        yield counter(
            "tidelog_group_commit_passes", "Passes of group commit.", work.group_commit_passes
        )
        yield counter(
            "tidelog_group_commit_seconds", "Time in these passes.", work.group_commit_seconds
        )
        for name, help_text, value in (
            ("scrubbed_bytes", "Bytes of logs checked in the background.", work.scrubbed_bytes),
            ("damaged_batches", "Damaged places found in logs.", work.damaged_batches),
            ("mended_batches", "Damaged batches put back or fetched again.", work.mended_batches),
        ):
            yield counter(f"tidelog_{name}", help_text, value)

    def _connections(self) -> Iterator[Metric]:
        connections = self._sources.view.connections()
        yield gauge("tidelog_connections", "Open connections.", connections.open)
        yield counter("tidelog_connections_accepted", "Connections accepted.", connections.accepted)
        yield by_label(
            "tidelog_connections_closed",
            "Connections that ended, by reason.",
            "reason",
            connections.closed,
        )
        yield counter("tidelog_network_bytes_in", "Bytes received.", connections.bytes_in)
        yield counter("tidelog_network_bytes_out", "Bytes sent.", connections.bytes_out)
        yield gauge(
            "tidelog_in_flight_bytes",
            "Request bytes that are not answered yet.",
            connections.in_flight_bytes,
        )
        yield from security_metrics(connections)

    def _event_metrics(self) -> Iterator[Metric]:
        sources = self._sources
        yield by_label(
            "tidelog_events", "Events published, by kind.", "event", sources.counts.by_kind
        )
        yield gauge("tidelog_event_number", "Number of the last event.", sources.stream.last_number)
        delay = sources.loop_delay
        yield loop_delay_metric(delay)
        yield counter(
            "tidelog_event_loop_holds", "Holds of the loop that the journal names.", delay.holds
        )
        yield gauge(
            "tidelog_event_loop_longest_hold_seconds",
            "Longest hold of the loop.",
            delay.longest_hold_seconds,
        )
        for name, value in sorted(sources.own().items()):
            yield counter(f"tidelog_{name}", f"{name.replace('_', ' ')} since the start.", value)


class Metrics:
    """A registry of its own: nothing of the process beside the node is in it."""

    __slots__ = ("_collected",)

    def __init__(self, sources: Sources) -> None:
        self._collected = CollectorRegistry(auto_describe=False)
        self._collected.register(NodeCollector(sources))

    def text(self) -> bytes:
        return generate_latest(self._collected)


def gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_text, value=value)


def counter(name: str, help_text: str, value: float) -> Metric:
    return CounterMetricFamily(name, help_text, value=value)


def by_label(name: str, help_text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, help_text, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family


def security_metrics(connections: ConnectionsView) -> Iterator[Metric]:
    yield by_label(
        "tidelog_logins",
        "Logins with SASL that succeeded, by listener.",
        "listener",
        connections.logins,
    )
    yield by_label(
        "tidelog_failed_logins",
        "Logins with SASL that failed, by listener.",
        "listener",
        connections.failed_logins,
    )
    ends = GaugeMetricFamily(
        "tidelog_certificate_end_seconds",
        "When each certificate of the node expires, in seconds since 1970.",
        labels=["certificate"],
    )
    for name, end_ms in sorted(connections.certificates_end_ms.items()):
        ends.add_metric([name], end_ms / 1000)
    yield ends


def replica_metrics(partitions: list[PartitionView]) -> Iterator[Metric]:
    led = [each for each in partitions if each.leads]
    for name, help_text, value in (
        ("leadercount", "Partitions led here.", len(led)),
        ("partitioncount", "Partitions hosted here.", len(partitions)),
        (
            "underreplicatedpartitions",
            "Partitions led here whose ISR lacks replicas.",
            sum(each.under_replicated for each in led),
        ),
        (
            "underminisrpartitioncount",
            "Partitions led here with fewer in sync than min.insync.replicas.",
            sum(each.under_min_isr for each in led),
        ),
        (
            "atminisrpartitioncount",
            "Partitions led here with exactly min.insync.replicas in sync.",
            sum(each.at_min_isr for each in led),
        ),
        (
            "offlinereplicacount",
            "Replicas that this broker should host but cannot.",
            sum(each.problem is not None for each in partitions),
        ),
        (
            "partitionswithlatetransactionscount",
            "Partitions hosted here with a transaction that hangs.",
            sum(each.has_late_transaction for each in partitions),
        ),
    ):
        yield gauge(f"{REPLICAS}{name}", help_text, value)
    lags = [each.lag for each in partitions if each.role == FOLLOWER]
    yield gauge(
        "kafka_server_replicafetchermanager_maxlag",
        "Records that the slowest follower here does not have.",
        max(lags, default=0) if lags else 0,
    )
    yield gauge(
        "tidelog_high_watermark_lag_records",
        "Records led here that are not committed yet.",
        sum(each.log_end_offset - each.high_watermark for each in led),
    )


def controller_metrics(controller: ControllerView) -> Iterator[Metric]:
    """Like Kafka, a controller that is not active says zero: sums over nodes stay right."""
    active = controller.active
    for name, help_text, value in (
        ("activecontrollercount", "1 on the active controller.", 1),
        ("offlinepartitionscount", "Partitions without a leader.", controller.offline_partitions),
        (
            "preferredreplicaimbalancecount",
            "Partitions not led by their preferred replica.",
            controller.preferred_replica_imbalance,
        ),
        ("fencedbrokercount", "Registered brokers that are fenced.", controller.fenced_brokers),
        ("activebrokercount", "Registered brokers that are not fenced.", controller.active_brokers),
        ("globaltopiccount", "Topics of the cluster.", controller.topics),
        ("globalpartitioncount", "Partitions of the cluster.", controller.partitions),
    ):
        yield gauge(f"{CONTROLLER}{name}", help_text, value if active else 0)


def traffic_metrics(traffic: Traffic) -> Iterator[Metric]:
    for name, help_text, value in (
        ("messagesin", "Records that clients appended.", traffic.messages_in),
        ("bytesin", "Bytes of records that clients appended.", traffic.bytes_in),
        ("bytesout", "Bytes of records sent to consumers.", traffic.bytes_out),
        ("replicationbytesin", "Bytes fetched from leaders.", traffic.replication_bytes_in),
        ("replicationbytesout", "Bytes sent to followers.", traffic.replication_bytes_out),
        ("failedproducerequests", "Partitions refused in produces.", traffic.failed_produces),
        ("failedfetchrequests", "Partitions refused in fetches.", traffic.failed_fetches),
    ):
        yield counter(f"{TOPICS}{name}", help_text, value)
    yield from throttle_metrics(traffic)


def throttle_metrics(traffic: Traffic) -> Iterator[Metric]:
    for name, help_text, value in (
        ("produces", "Produces whose client has to wait.", traffic.throttled_produces),
        ("fetches", "Fetches whose client has to wait.", traffic.throttled_fetches),
        ("mutations", "Topics refused by a quota.", traffic.throttled_mutations),
        ("connections", "Connections above a rate limit.", traffic.throttled_connections),
        ("requests", "Requests of clients above their request time.", traffic.throttled_requests),
        ("milliseconds", "Time that connections were not read.", traffic.throttled_ms),
    ):
        yield counter(f"{THROTTLED}{name}", help_text, value)


def troubled_partitions(partitions: list[PartitionView]) -> Iterator[Metric]:
    troubled = [each for each in partitions if not each.healthy]
    labels = ["topic", "partition"]
    isr = GaugeMetricFamily(
        "tidelog_partition_isr_size", "In-sync replicas, while not healthy.", labels=labels
    )
    uncommitted = GaugeMetricFamily(
        "tidelog_partition_high_watermark_lag_records",
        "Records not committed, while not healthy.",
        labels=labels,
    )
    follower_lag = GaugeMetricFamily(
        "tidelog_partition_follower_lag_records",
        "Records a follower does not have, while not healthy; -1 if it never fetched.",
        labels=[*labels, "broker"],
    )
    unstable = GaugeMetricFamily(
        "kafka_cluster_partition_laststableoffsetlag",
        "Committed records that wait for the end of a transaction, while there are any.",
        labels=labels,
    )
    for each in partitions:
        if each.leads and each.last_stable_offset_lag:
            unstable.add_metric([each.topic, str(each.partition)], each.last_stable_offset_lag)
    for each in troubled:
        where = [each.topic, str(each.partition)]
        isr.add_metric(where, len(each.isr))
        uncommitted.add_metric(where, each.log_end_offset - each.high_watermark)
        for follower in each.followers:
            follower_lag.add_metric([*where, str(follower.broker)], follower.lag)
    yield from (isr, uncommitted, follower_lag, unstable)


def findings_metric(findings: tuple[Finding, ...]) -> Metric:
    family = GaugeMetricFamily(
        "tidelog_findings", "Problems of this node that last, by kind.", labels=["kind"]
    )
    for kind, count in sorted(Counter(each.kind for each in findings).items()):
        family.add_metric([kind], count)
    return family


def log_dir_metrics(log_dirs: tuple[LogDirView, ...]) -> Iterator[Metric]:
    usable = GaugeMetricFamily(
        "tidelog_log_dir_usable_bytes", "Free bytes around a log directory.", labels=["dir"]
    )
    full = GaugeMetricFamily(
        "tidelog_log_dir_full",
        "1 if a log directory takes no records because it lacks space.",
        labels=["dir"],
    )
    for each in log_dirs:
        full.add_metric([each.path], int(each.is_full))
        if each.usable_bytes is not None:
            usable.add_metric([each.path], each.usable_bytes)
    yield from (usable, full)


def loop_delay_metric(delay: LoopDelay) -> Metric:
    return HistogramMetricFamily(
        "tidelog_event_loop_delay_seconds",
        "How late the event loop was, at ten probes a second.",
        buckets=buckets_of(delay),
        sum_value=delay.seconds,
    )


def request_times_metric(times: Mapping[str, Histogram]) -> Metric:
    metric = HistogramMetricFamily(
        "tidelog_request_seconds",
        "How long clients waited for answers, of a sample; fetches also wait for records.",
        labels=["request"],
    )
    for name, histogram in times.items():
        metric.add_metric([name], buckets_of(histogram), histogram.seconds)
    return metric


def buckets_of(histogram: Histogram) -> list[tuple[str, float]]:
    bounds = (*map(str, BOUNDS_S), "+Inf")
    return list(zip(bounds, accumulate(histogram.over), strict=True))
