"""Followers that fall behind and what may lead without them, on real processes.

A follower counts as lost after a second without being caught up; its session lasts far longer.
"""

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import ResourceType

from support import live
from support.live import in_sync, numbered
from tidelog.core.errors import Error
from tidelog.testing import Cluster

STRICT = {
    "auto.leader.rebalance.enable": False,
    "broker.session.timeout.ms": 30_000,
    "min.insync.replicas": 1,
    "replica.lag.time.max.ms": 1000,
    "unclean.leader.election.interval.ms": 200,
}


@pytest.fixture(scope="module")
def strict():
    with Cluster(brokers=3, controllers=1, separate=True, config=STRICT) as cluster:
        yield cluster


@pytest.fixture
def cluster(strict):
    yield strict
    live.mend(strict)


def test_a_follower_that_hangs_leaves_the_in_sync_replicas_and_returns_when_it_goes_on(cluster):
    """Handling failed or slow followers."""
    topic = cluster.topic("hang", configs={"min.insync.replicas": 2}, assignment=[[1, 2, 3]])
    live.write(cluster, topic, numbered("before", 5), acks="all")
    cluster.pause(3)
    live.write(cluster, topic, numbered("without", 5), acks="all")
    cluster.wait(lambda: in_sync(cluster, topic, [1, 2]))
    assert live.read(cluster, topic) == [*numbered("before", 5), *numbered("without", 5)]
    cluster.resume(3)
    cluster.wait(lambda: in_sync(cluster, topic, [1, 2, 3]))

    assert cluster.partition(topic, 0).leader_epoch == 0
    assert "broker 3 fenced" not in cluster.log(101)
    assert live.log_bytes(cluster, 3, topic) == live.log_bytes(cluster, 1, topic)


def test_a_follower_that_cannot_reach_its_leader_leaves_though_the_controller_hears_it(cluster):
    """Handling failed or slow followers: it is the leader who judges."""
    topic = cluster.topic("lag", assignment=[[1, 2, 3]])
    cluster.partition_off([1], [3])
    live.write(cluster, topic, numbered("without", 5), acks="all")
    cluster.wait(lambda: in_sync(cluster, topic, [1, 2]))
    assert 3 in cluster.alive()
    cluster.heal()
    cluster.wait(lambda: in_sync(cluster, topic, [1, 2, 3]))
    assert cluster.replica(3, topic)["log_end_offset"] == 5


def left_with_a_stale_replica(cluster, topic):
    """Broker 2 misses five committed records and is alone."""
    live.write(cluster, topic, numbered("early", 5), acks="all")
    cluster.partition_off([1], [2])
    live.write(cluster, topic, numbered("late", 5), acks="all")  # when broker 2 has left
    cluster.wait(lambda: in_sync(cluster, topic, [1]))
    cluster.kill(1)
    cluster.wait(lambda: cluster.partition(topic, 0).leader is None)


def leader_error(consumer, topic):
    """Why a client cannot use the partition, in the client's own words."""
    found = consumer.list_topics(topic, timeout=live.GUARD_S).topics[topic].partitions[0]
    return None if found.error is None else found.error.code()


def test_without_an_in_sync_replica_a_partition_waits_and_nothing_is_lost(cluster):
    """Unclean leader election, disabled: the partition is offline until a member returns."""
    topic = cluster.topic("safe", assignment=[[1, 2]])
    left_with_a_stale_replica(cluster, topic)
    assert cluster.partition(topic, 0).error == Error.LEADER_NOT_AVAILABLE
    assert live.latest(cluster, 2, topic) == (Error.NOT_LEADER_OR_FOLLOWER, -1)
    with live.reading(cluster, topic) as consumer:
        cluster.wait(lambda: leader_error(consumer, topic) == KafkaError.LEADER_NOT_AVAILABLE)
        assert consumer.poll(0) is None
        cluster.heal()
        cluster.restart(1)
        assert live.take(consumer, 10) == [*numbered("early", 5), *numbered("late", 5)]
    assert cluster.partition(topic, 0).leader == 1
    assert "safe-0 leader 2" not in cluster.log(101)


def test_an_unclean_election_costs_records_and_says_so(cluster):
    """Unclean leader election, enabled while the partition is offline."""
    topic = cluster.topic("risky", assignment=[[1, 2]])
    left_with_a_stale_replica(cluster, topic)
    configure = {"unclean.leader.election.enable": "true"}
    live.configure(cluster, ResourceType.TOPIC, topic, configure)
    cluster.wait(lambda: cluster.partition(topic, 0).leader == 2)
    assert live.read(cluster, topic) == numbered("early", 5)
    assert "risky-0 leader 2 elected uncleanly, records may be lost" in cluster.log(101)

    live.write(cluster, topic, ["newer"], acks="all")
    cluster.heal()
    cluster.restart(1)
    cluster.wait(lambda: in_sync(cluster, topic, [1, 2]))
    assert "risky-0 follower 1 truncates its log, end 10 → 5" in cluster.log(1)
    assert live.read(cluster, topic) == [*numbered("early", 5), "newer"]
    assert live.log_bytes(cluster, 1, topic) == live.log_bytes(cluster, 2, topic)
