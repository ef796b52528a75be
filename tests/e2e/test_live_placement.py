"""Where records are read and how fast they are copied, in a cluster of three racks."""

import time

import pytest
from confluent_kafka.admin import ResourceType

from support import live
from support.live import in_sync, numbered
from tidelog.client import Admin
from tidelog.config.replication_keys import RACK_AWARE_SELECTOR
from tidelog.testing import Cluster

RACKS = ("east", "west", "north")
BYTES_OUT = "kafka_server_brokertopicmetrics_bytesout_total"

RATE = 100_000
"""Bytes per second."""
VALUE = "x" * 10_000
FETCH_BYTES = 1024 * 1024
WINDOW_S = 11
"""A rate is measured over so many seconds, of which a first burst may use all."""
WATCHED_S = 2
"""Without a limit all is copied in a fraction of it."""


@pytest.fixture(scope="module")
def spread():
    config = {"replica.selector.class": RACK_AWARE_SELECTOR, "auto.leader.rebalance.enable": False}
    shape = {"brokers": 3, "controllers": 1, "separate": True, "racks": RACKS}
    with Cluster(**shape, config=config) as cluster:
        yield cluster


@pytest.fixture
def cluster(spread):
    yield spread
    live.mend(spread)


def test_a_consumer_is_sent_to_the_follower_in_its_own_rack(cluster):
    """Follower fetching."""
    topic = cluster.topic("near", assignment=[[1, 2, 3]])
    live.write(cluster, topic, numbered("record", 100), acks="all")
    cluster.wait(lambda: cluster.replica(2, topic)["high_watermark"] == 100)
    assert live.fetch(cluster, 1, topic, 0, rack="west").preferred_read_replica == 2
    assert live.fetch(cluster, 1, topic, 0, rack="east").preferred_read_replica == -1

    before = [live.metric(cluster, broker, BYTES_OUT) for broker in cluster.brokers]
    with live.reading(cluster, topic, client_rack="west") as consumer:
        assert live.take(consumer, 100) == numbered("record", 100)
        live.write(cluster, topic, numbered("record", 5, 100), acks="all")
        assert live.take(consumer, 5) == numbered("record", 5, 100)
        after = [live.metric(cluster, broker, BYTES_OUT) for broker in cluster.brokers]
        assert [now > then for now, then in zip(after, before, strict=True)] == [False, True, False]

        cluster.kill(2)  # then the leader will do
        live.write(cluster, topic, numbered("record", 5, 105), acks="all")
        assert live.take(consumer, 5) == numbered("record", 5, 105)


def test_a_new_replica_is_copied_no_faster_than_allowed_and_in_sync_ones_are_never_slowed(cluster):
    """Replication performance: follower.replication.throttled.rate."""
    size = 400 * len(VALUE)
    throttled = {"leader.replication.throttled.replicas": "*"}
    throttled["follower.replication.throttled.replicas"] = "*"
    topic = cluster.topic("moved", configs=throttled, assignment=[[1]])
    steady = cluster.topic("steady", configs=throttled, assignment=[[1, 3]])
    live.write(cluster, topic, [VALUE] * 400, acks="all")
    rates = dict.fromkeys(
        ("leader.replication.throttled.rate", "follower.replication.throttled.rate"), str(RATE)
    )
    for broker in (1, 2):
        live.configure(cluster, ResourceType.BROKER, str(broker), rates)
    begin = time.monotonic()
    cluster.ask(lambda client: Admin(client).reassign({(topic, 0): (1, 2)}))
    cluster.wait(lambda: len(live.log_bytes(cluster, 2, topic)) > 0)
    # In sync means that producers wait for it: these would take forty seconds otherwise.
    live.write(cluster, steady, [VALUE] * 400, acks="all", message_timeout_ms=20_000)
    while (elapsed_s := time.monotonic() - begin) < WATCHED_S:
        copied = len(live.log_bytes(cluster, 2, topic))
        assert copied <= RATE * (elapsed_s + WINDOW_S) + FETCH_BYTES
        assert copied < size
    assert not in_sync(cluster, topic, [1, 2])

    for broker in (1, 2):
        live.configure(cluster, ResourceType.BROKER, str(broker), dict.fromkeys(rates))
    cluster.wait(lambda: in_sync(cluster, topic, [1, 2]))
    assert live.log_bytes(cluster, 2, topic) == live.log_bytes(cluster, 1, topic)
    assert cluster.ask(lambda client: Admin(client).reassignments()) == []
