"""Metrics: Kafka's names, the node's state, read by somebody else's parser."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.manual_clock import ManualClock
from support.node_views import SeenNode, followed, led
from tidelog.core import events
from tidelog.core.types import PartitionId
from tidelog.host.findings import Finding
from tidelog.host.histogram import BOUNDS_S
from tidelog.observe.counts import EventCounts, LoopDelay
from tidelog.observe.metrics import Metrics, Sources
from tidelog.observe.stream import EventStream

ORDERS = PartitionId(b"o" * 16, 0)


class Scraped:
    def __init__(self, *partitions):
        self.node = SeenNode(*partitions)
        self.stream = EventStream(1, ManualClock())
        self.counts = EventCounts(self.stream)
        self.delay = LoopDelay()
        own = {"journal_lines": 4}
        self.metrics = Metrics(
            Sources(self.node, self.stream, self.counts, self.delay, lambda: own)
        )

    def samples(self):
        text = self.metrics.text().decode()
        return {
            (sample.name, *(sample.labels[each] for each in sorted(sample.labels))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


def test_replicas_are_counted_as_kafka_counts_them():
    samples = Scraped(
        led(),
        led(partition=1, isr=(1, 2)),
        led(partition=2, isr=(1,)),
        followed(partition=3, lag=17),
        followed(partition=4, lag=-1, problem="no space left", has_late_transaction=True),
    ).samples()
    replicas = {
        name[0].removeprefix("kafka_server_replicamanager_"): value
        for name, value in samples.items()
        if name[0].startswith("kafka_server_replicamanager_")
    }
    assert replicas == {
        "leadercount": 3,
        "partitioncount": 5,
        "underreplicatedpartitions": 2,
        "underminisrpartitioncount": 1,
        "atminisrpartitioncount": 1,
        "offlinereplicacount": 1,
        "partitionswithlatetransactionscount": 1,
        "isrshrinks_total": 0,
        "isrexpands_total": 0,
    }
    assert samples[("kafka_server_replicafetchermanager_maxlag",)] == 17
    assert samples[("tidelog_high_watermark_lag_records",)] == 6


def test_a_replica_that_is_being_added_is_not_missing():
    samples = Scraped(led(isr=(1, 2), adding_replicas=(3,))).samples()
    assert samples[("kafka_server_replicamanager_underreplicatedpartitions",)] == 0


def test_only_partitions_in_trouble_have_series_of_their_own():
    samples = Scraped(led(), led(partition=1, isr=(1, 2))).samples()
    sizes = {name: value for name, value in samples.items() if "isr_size" in name[0]}
    assert sizes == {("tidelog_partition_isr_size", "1", "orders"): 2}
    assert samples[("tidelog_partition_follower_lag_records", "3", "1", "orders")] == 2
    assert ("tidelog_partition_follower_lag_records", "3", "0", "orders") not in samples


def test_partitions_whose_readers_wait_for_a_transaction_have_series_of_their_own():
    waiting = led(partition=1, last_stable_offset_lag=5)
    samples = Scraped(led(), waiting, followed(partition=2, last_stable_offset_lag=4)).samples()
    lags = {name: value for name, value in samples.items() if "laststable" in name[0]}
    assert lags == {("kafka_cluster_partition_laststableoffsetlag", "1", "orders"): 5}


def test_changes_of_the_isr_are_counted_off_the_stream():
    scraped = Scraped(led())
    scraped.stream.emit(events.IsrChanged(ORDERS, 1, (1, 2, 3), (1, 2), 5))
    scraped.stream.emit(events.IsrChanged(ORDERS, 1, (1, 2), (1, 2, 3), 6))
    scraped.stream.emit(events.IsrChanged(ORDERS, 1, (1, 2), (1, 3), 7))
    scraped.stream.emit(events.LeaderElected(ORDERS, 1, 2, 4, 8, (2,), True))
    samples = scraped.samples()
    assert samples[("kafka_server_replicamanager_isrshrinks_total",)] == 2
    assert samples[("kafka_server_replicamanager_isrexpands_total",)] == 2
    assert samples[("kafka_controller_controllerstats_uncleanleaderelections_total",)] == 1
    assert samples[("tidelog_events_total", "IsrChanged")] == 3


def test_findings_are_counted_by_kind():
    scraped = Scraped(led())
    scraped.node.now_findings = tuple(
        Finding(kind, subject, "", "", 0) for kind, subject in (("a", "x"), ("a", "y"), ("b", "x"))
    )
    samples = scraped.samples()
    assert samples[("tidelog_findings", "a")] == 2
    assert samples[("tidelog_findings", "b")] == 1


CONTROLLER = "kafka_controller_kafkacontroller_"


@pytest.mark.parametrize(("active", "factor"), [(True, 1), (False, 0)])
def test_only_the_active_controller_counts_so_that_sums_are_right(active, factor):
    scraped = Scraped()
    scraped.node.control = scraped.node.control._replace(active=active)
    samples = scraped.samples()
    for name, value in (
        ("activecontrollercount", 1),
        ("offlinepartitionscount", 1),
        ("preferredreplicaimbalancecount", 2),
        ("activebrokercount", 2),
        ("fencedbrokercount", 1),
    ):
        assert samples[(f"{CONTROLLER}{name}",)] == value * factor


def test_a_broker_without_a_controller_has_no_controller_metrics():
    scraped = Scraped()
    scraped.node.control = None
    assert not [name for name in scraped.samples() if name[0].startswith(CONTROLLER)]


def test_traffic_requests_and_ends_of_connections_are_passed_on():
    scraped = Scraped()
    scraped.node.counted.messages_in = 100
    scraped.node.counted.failed_produces = 3
    samples = scraped.samples()
    assert samples[("kafka_server_brokertopicmetrics_messagesin_total",)] == 100
    assert samples[("kafka_server_brokertopicmetrics_failedproducerequests_total",)] == 3
    assert samples[("kafka_network_requestmetrics_requests_total", "Fetch")] == 5
    assert samples[("tidelog_connections_closed_total", "idle")] == 6
    assert samples[("tidelog_logins_total", "OUT")] == 4
    assert samples[("tidelog_failed_logins_total", "OUT")] == 2
    assert samples[("tidelog_certificate_end_seconds", "OUT")] == 1_800_000_000
    assert samples[("tidelog_group_commit_passes_total",)] == 12
    assert samples[("tidelog_parked_fetches",)] == 4
    assert samples[("tidelog_journal_lines_total",)] == 4


def test_delays_of_the_event_loop_are_a_histogram():
    scraped = Scraped()
    for delay_s in (0.0005, 0.03, 60.0):
        scraped.delay.note(delay_s)
    samples = scraped.samples()
    name = "tidelog_event_loop_delay_seconds"
    assert samples[(f"{name}_bucket", str(BOUNDS_S[0]))] == 1
    assert samples[(f"{name}_bucket", "0.05")] == 2
    assert samples[(f"{name}_bucket", "+Inf")] == 3
    assert samples[(f"{name}_count",)] == 3


def test_names_of_topics_cannot_break_the_text():
    samples = Scraped(led('a"\\\n', isr=(1,))).samples()
    assert samples[("tidelog_partition_isr_size", "0", 'a"\\\n')] == 1
