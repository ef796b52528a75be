"""What has happened in the cluster that the pages show: records, a transaction, a group."""

import json

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tidelog.testing import Cluster

TOPIC = "orders"
GROUP = "billing"
RECORDS = 12
WITHIN_SECONDS = 60


def tell_story(cluster: Cluster) -> None:
    cluster.topic(TOPIC, partitions=3, replication_factor=3)
    _produce(cluster)
    _abort(cluster)
    _commit(cluster)


def _produce(cluster: Cluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for number in range(RECORDS):
        value = json.dumps({"order": number, "amount": number * 1.5})
        producer.produce(
            TOPIC, value, f"customer-{number}", partition=number % 3, headers={"trace": "a1"}
        )
    assert producer.flush(WITHIN_SECONDS) == 0, "records were not acknowledged"


def _abort(cluster: Cluster) -> None:
    """Partition 0 ends with a record that nobody may read, and with the marker that says so."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "regretful"}
    )
    producer.init_transactions(WITHIN_SECONDS)
    producer.begin_transaction()
    producer.produce(TOPIC, b"never mind", b"customer-0", partition=0)
    assert producer.flush(WITHIN_SECONDS) == 0, "the record was not acknowledged"
    producer.abort_transaction(WITHIN_SECONDS)


def _commit(cluster: Cluster) -> None:
    """A group without members: only such a group may be moved."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": GROUP})
    try:
        offsets = [TopicPartition(TOPIC, partition, 2) for partition in range(3)]
        for done in consumer.commit(offsets=offsets, asynchronous=False) or []:
            if done.error is not None:
                raise KafkaException(done.error)
    finally:
        consumer.close()
