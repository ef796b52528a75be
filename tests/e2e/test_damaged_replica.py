"""A batch rots on the disk of a real leader: nobody gets it, and it is put back."""

import confluent_kafka

from tidelog.testing import Cluster
from tidelog.wire.records import iter_batches

COUNT = 200
WITHIN_S = 30


def write_all(cluster, topic):
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 0}
    )
    for number in range(COUNT):
        producer.produce(topic, b"record %d of many, and some more bytes" % number)
        if number % 10 == 9:
            producer.flush(WITHIN_S)
    assert producer.flush(WITHIN_S) == 0


def read_all(cluster, topic):
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "damaged", "log_level": 0}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found = []

    def has_all():
        found.extend(each.value() for each in consumer.consume(100, 0.2) if each.error() is None)
        return len(found) >= COUNT

    try:
        cluster.wait(has_all, WITHIN_S)
    finally:
        consumer.close()
    return found


def segment_file(cluster, broker, topic):
    return cluster.data_dir(broker) / f"{topic}-0" / f"{0:020d}.log"


def test_a_rotten_batch_of_a_leader_is_read_elsewhere_and_put_back():
    with Cluster(brokers=3) as cluster:
        topic = cluster.topic("orders", assignment=[[1, 2, 3]])
        write_all(cluster, topic)
        rotten = segment_file(cluster, 1, topic)
        healthy = rotten.read_bytes()
        places = [position for position, _ in iter_batches(healthy)]
        with rotten.open("r+b") as file:
            file.seek(places[len(places) // 2] + 70)
            file.write(b"\xff\xfe")
        values = read_all(cluster, topic)
        assert values == [b"record %d of many, and some more bytes" % n for n in range(COUNT)]
        cluster.wait(lambda: rotten.read_bytes() == healthy)
        cluster.wait(lambda: set(cluster.partition(topic, 0).isr) == {1, 2, 3})
        cluster.wait(lambda: "put back as broker" in cluster.log(1))
        assert "damaged-batch" in cluster.log(1)
        cluster.wait(lambda: cluster.state(1).get("findings") == [])
        assert "Traceback" not in cluster.log(1)
