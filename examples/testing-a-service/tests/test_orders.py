"""The writer of orders: with one broker that all tests share, and with a cluster that breaks."""

import pytest
from billing.orders import OrderWriter
from confluent_kafka import KafkaException

ORDERS = [{"customer": name, "cents": 100} for name in ("ann", "bob", "cyd")]


def test_orders_are_written_in_order(tidelog):
    topic = tidelog.topic("orders", partitions=1)
    assert OrderWriter(tidelog.bootstrap_servers, topic).send(ORDERS) == [0, 1, 2]


def test_a_short_trouble_is_nobodys_business(tidelog):
    topic = tidelog.topic("orders", partitions=1)
    tidelog.answer_next("Produce", "NOT_ENOUGH_REPLICAS", times=2)
    assert OrderWriter(tidelog.bootstrap_servers, topic).send(ORDERS) == [0, 1, 2]


def test_an_order_that_cannot_be_written_is_an_error(tidelog):
    topic = tidelog.topic("orders", partitions=1)
    tidelog.answer_next("Produce", "TOPIC_AUTHORIZATION_FAILED")
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        OrderWriter(tidelog.bootstrap_servers, topic).send(ORDERS)
    assert tidelog.records(topic) == []


@pytest.mark.tidelog(brokers=3, config={"min.insync.replicas": 2})
def test_orders_survive_the_leader(tidelog_cluster):
    cluster = tidelog_cluster
    topic = cluster.topic("orders", replication_factor=3)
    writer = OrderWriter(cluster.bootstrap_servers, topic)
    assert writer.send(ORDERS) == [0, 1, 2]
    old = cluster.partition(topic).leader
    cluster.kill(old)
    assert writer.send(ORDERS) == [3, 4, 5], "the client finds the next leader by itself"
    assert cluster.partition(topic).leader != old
    assert cluster.events.saw("BrokerFenced", "LeaderElected")
    assert len(cluster.records(topic)) == 6
