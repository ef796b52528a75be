"""Spark's workers are processes of their own: they reach a broker on a thread of the test, too."""

import pytest
from confluent_kafka import Producer

from tidelog.testing import Cluster
from tidelog.testing.shared import SharedBroker

GUARD_S = 60


@pytest.fixture(scope="module")
def tidelog():
    """What the fixture of that name gives to every test."""
    with Cluster(brokers=1, host="thread") as cluster:
        yield SharedBroker(cluster)


def test_a_batch_is_read_from_a_broker_in_the_same_process(spark, tidelog):
    topic = tidelog.topic("orders", partitions=2)
    producer = Producer({"bootstrap.servers": tidelog.bootstrap_servers, "log_level": 0})
    for number in range(100):
        producer.produce(topic, str(number), partition=number % 2)
    assert producer.flush(GUARD_S) == 0
    options = {"kafka.bootstrap.servers": tidelog.bootstrap_servers, "subscribe": topic}
    frame = spark.read.format("tidelog").options(**options).load()
    assert sorted(int(row["value"]) for row in frame.collect()) == list(range(100))
