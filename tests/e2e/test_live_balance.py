"""Leaderships that went astray and come home, by themselves or when somebody asks."""

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient

from support import live
from support.live import in_sync, numbered
from tidelog.client import Admin
from tidelog.testing import Cluster

BALANCED = {
    "auto.leader.rebalance.enable": True,
    "leader.imbalance.check.interval.seconds": 1,
    "leader.imbalance.per.broker.percentage": 20,
}
LEFT_ALONE = {"auto.leader.rebalance.enable": False}


def leaders(cluster, topic):
    found = cluster.ask(lambda client: client.topic(topic))
    return [each.leader for each in found.partitions]


def test_leaders_go_back_to_their_preferred_replicas_when_too_many_are_away():
    """Partition leader balancing: a check every now and then, with a threshold."""
    with Cluster(brokers=3, controllers=1, separate=True, config=BALANCED) as cluster:
        few = cluster.topic("few", assignment=[[2, 3, 1]] * 5 + [[3, 2, 1]])
        topic = cluster.topic("many", assignment=[[1, 2, 3], [1, 3, 2], [3, 1, 2]])
        # One of six is not a fifth: broker 2 should lead this one, and that is not worth a move.
        cluster.ask(lambda client: Admin(client).reassign({(few, 5): (2, 3, 1)}))
        cluster.wait(lambda: cluster.partition(few, 5).preferred == 2)
        cluster.kill(1)
        cluster.wait(lambda: None not in (found := leaders(cluster, topic)) and 1 not in found)
        live.write(cluster, topic, numbered("away", 5), acks="all")
        cluster.restart(1)
        cluster.wait(lambda: leaders(cluster, topic) == [1, 1, 3])
        assert leaders(cluster, few) == [2, 2, 2, 2, 2, 3]
        live.write(cluster, topic, numbered("home", 5), acks="all")
        assert live.read(cluster, topic) == [*numbered("away", 5), *numbered("home", 5)]


@pytest.fixture
def cluster():
    with Cluster(brokers=3, controllers=1, separate=True, config=LEFT_ALONE) as made:
        yield made


def test_an_administrator_can_send_leaders_home_without_waiting_for_a_check(cluster):
    """Partition leader balancing: the preferred replica is the first one."""
    topic = cluster.topic("asked", assignment=[[1, 2, 3]])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    cluster.kill(1)
    cluster.wait(lambda: leaders(cluster, topic) == [2])
    cluster.restart(1)
    cluster.wait(lambda: in_sync(cluster, topic, [1, 2, 3]))
    assert leaders(cluster, topic) == [2]

    wanted = TopicPartition(topic, 0)
    elected = admin.elect_leaders(ElectionType.PREFERRED, [wanted]).result(live.GUARD_S)
    assert elected[wanted] is None, elected[wanted]
    cluster.wait(lambda: leaders(cluster, topic) == [1])
    assert cluster.partition(topic, 0).leader_epoch == 2
