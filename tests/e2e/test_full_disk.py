"""A real node whose disk is full: it refuses writes in words, serves reads, and recovers."""

import errno
import os
import subprocess
import time

import confluent_kafka
import pytest

from tidelog.testing import Cluster

WITHIN_S = 30
DISK_BYTES = 48 * 1024 * 1024
VALUE = os.urandom(64 * 1024)


def is_mounted(path):
    """A small disk of its own, if we may make one."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tidelog-test", str(path)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture
def small_disk(tmp_path):
    if not is_mounted(tmp_path):
        pytest.skip("mounting a tmpfs takes root")
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def fill_with(path):
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def write_one(cluster, topic):
    """The error of one acks=all write without retries, or None."""
    outcome = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "acks": "all",
            "message.timeout.ms": 5_000,
            "retries": 0,
            "log_level": 0,
        }
    )
    producer.produce(topic, VALUE, on_delivery=lambda error, _: outcome.append(error))
    producer.flush(WITHIN_S)
    return outcome[0]


def read_count(cluster, topic, count):
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "full-disk",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found, deadline = 0, time.monotonic() + WITHIN_S
    try:
        while found < count and time.monotonic() < deadline:
            found += sum(each.error() is None for each in consumer.consume(100, timeout=0.5))
        return found
    finally:
        consumer.close()


def commits_offsets(cluster, topic):
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "full-disk", "log_level": 0}
    )
    try:
        position = confluent_kafka.TopicPartition(topic, 0, 7)
        consumer.commit(offsets=[position], asynchronous=False)
        return consumer.committed([position], WITHIN_S)[0].offset == 7
    except confluent_kafka.KafkaException:
        return False
    finally:
        consumer.close()


def test_a_full_disk_refuses_writes_serves_reads_and_recovers(small_disk):
    ballast = small_disk / "ballast"
    with Cluster(brokers=1, directory=small_disk) as cluster:
        topic = cluster.topic("orders")
        for _ in range(20):
            assert write_one(cluster, topic) is None
        process = cluster.pid(1)
        fill_with(ballast)
        error = write_one(cluster, topic)
        assert error is not None, "nothing was refused on a full disk"
        assert error.code() == confluent_kafka.KafkaError.KAFKA_STORAGE_ERROR, error
        assert read_count(cluster, topic, 20) == 20
        assert write_one(cluster, topic) is not None
        ballast.unlink()
        cluster.wait(lambda: write_one(cluster, topic) is None, WITHIN_S)
        assert read_count(cluster, topic, 21) == 21
        # A topic that was created while there was no space has its logs now.
        cluster.wait(lambda: commits_offsets(cluster, topic), WITHIN_S)
        assert cluster.pid(1) == process, "it was restarted"
        assert "Traceback" not in cluster.log(1)
