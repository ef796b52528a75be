"""Leaders that hang for a while, with the sessions that `tidelog up` gives a cluster."""

import time

import pytest

from support import live
from support.batches import batch
from support.live import in_sync, numbered
from tidelog.core.errors import Error
from tidelog.testing import Cluster
from tidelog.wire.protocol.schemas.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

SHORT_PAUSE_S = 2
"""What a garbage collection, a laptop's lid or a busy machine may take."""
PRODUCE_VERSION = 9


@pytest.fixture(scope="module")
def usual():
    settled = {"auto.leader.rebalance.enable": False, "replica.lag.time.max.ms": 30_000}
    with Cluster(brokers=3, controllers=1, separate=True, config=settled) as cluster:
        yield cluster


@pytest.fixture
def cluster(usual):
    yield usual
    live.mend(usual)


def test_a_leader_that_hangs_for_two_seconds_stays_the_leader(cluster):
    """Leader failure: a pause is none."""
    topic = cluster.topic("pause", assignment=[[1, 2, 3]])
    live.write(cluster, topic, ["before"], acks="all")
    cluster.pause(1)
    time.sleep(SHORT_PAUSE_S)  # the length of the pause is the story
    cluster.resume(1)
    live.write(cluster, topic, ["after"], acks="all")

    after = cluster.partition(topic, 0)
    assert (after.leader, after.leader_epoch) == (1, 0)
    assert "broker 1 fenced" not in cluster.log(101)
    assert live.read(cluster, topic) == ["before", "after"]


def test_a_leader_that_hangs_longer_than_its_session_is_replaced_and_wakes_up_as_a_follower(
    cluster,
):
    """Leader failure; reconciliation of one who never knew that he was gone."""
    topic = cluster.topic("asleep", assignment=[[1, 2, 3]])
    live.write(cluster, topic, numbered("kept", 5), acks="all")
    cluster.partition_off([1], [2, 3])
    live.write(cluster, topic, numbered("alone", 3), acks=1)
    cluster.pause(1)
    cluster.wait(lambda: cluster.partition(topic, 0).leader == 2)
    assert cluster.partition(topic, 0).leader_epoch == 1
    live.write(cluster, topic, numbered("newer", 4), acks="all")
    # The sleeper finds it in his socket when he wakes up, together with whatever else is new.
    question = live.Question(cluster, 1, produce("stale", topic), PRODUCE_VERSION)
    cluster.resume(1)
    refused = question.answer().responses[0].partition_responses[0]
    assert refused.error_code == Error.NOT_LEADER_OR_FOLLOWER
    cluster.heal()
    cluster.wait(lambda: in_sync(cluster, topic, [1, 2, 3]))

    assert "broker 1 fenced" in cluster.log(101)
    assert "asleep-0 follower 1 truncates its log" in cluster.log(1)
    assert live.read(cluster, topic) == [*numbered("kept", 5), *numbered("newer", 4)]
    assert live.log_bytes(cluster, 1, topic) == live.log_bytes(cluster, 2, topic)


def produce(value, topic):
    """One record, for all in-sync replicas."""
    part = PartitionProduceData(index=0, records=batch(value.encode()))
    topics = [TopicProduceData(name=topic, partition_data=[part])]
    return ProduceRequest(acks=-1, timeout_ms=live.GUARD_S * 1000, topic_data=topics)
