"""Clients that people have, on a broker of a thread: nobody can tell it from another one."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer

from tidelog.testing import Cluster

GUARD_S = 60
VALUES = [b"a", b"b", b"c"]


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=1, host="thread") as running:
        yield running


def test_confluent_kafka_writes_a_transaction_and_reads_it(cluster):
    topic, servers = cluster.topic("confluent"), cluster.bootstrap_servers
    settings = {"bootstrap.servers": servers, "log_level": 0}
    producer = Producer({**settings, "transactional.id": "mine"})
    producer.init_transactions(GUARD_S)
    producer.begin_transaction()
    for value in VALUES:
        producer.produce(topic, value)
    producer.commit_transaction(GUARD_S)
    consumer = Consumer({**settings, "group.id": "confluent", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        read = consumer.consume(3, GUARD_S)
        assert [message.value() for message in read] == VALUES
    finally:
        consumer.close()


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")
def test_kafka_python_writes_and_reads(cluster):
    from kafka import KafkaConsumer, KafkaProducer

    topic, servers = cluster.topic("kafka-python"), cluster.bootstrap_servers
    producer = KafkaProducer(bootstrap_servers=servers, acks="all")
    sent = [producer.send(topic, value) for value in VALUES]
    assert [each.get(GUARD_S).offset for each in sent] == [0, 1, 2]
    producer.close()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id="kafka-python",
        auto_offset_reset="earliest",
        consumer_timeout_ms=GUARD_S * 1000,
    )
    read = [next(consumer).value for _ in VALUES]
    consumer.close()
    assert read == VALUES


def test_aiokafka_writes_and_reads(cluster):
    topic, servers = cluster.topic("aiokafka"), cluster.bootstrap_servers

    async def story():
        async with asyncio.timeout(GUARD_S):
            async with AIOKafkaProducer(bootstrap_servers=servers, acks="all") as producer:
                for value in VALUES:
                    await producer.send_and_wait(topic, value)
            async with AIOKafkaConsumer(
                topic, bootstrap_servers=servers, group_id="aiokafka", auto_offset_reset="earliest"
            ) as consumer:
                return [(await consumer.getone()).value for _ in VALUES]

    assert asyncio.run(story()) == VALUES
