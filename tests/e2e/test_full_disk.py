"""Real nodes whose disk is full: writes are refused in words or taken by others; it recovers."""

import contextlib
import errno
import os
import subprocess
import time
import urllib.request

import confluent_kafka
import pytest
from click.testing import CliRunner

from tidelog.cli.main import cli
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


@contextlib.contextmanager
def small_disk_at(path):
    if not is_mounted(path):
        pytest.skip("mounting a tmpfs takes root")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@pytest.fixture
def small_disk(tmp_path):
    with small_disk_at(tmp_path):
        yield tmp_path


@pytest.fixture
def small_disk_of_node_1(tmp_path):
    """The directory of a cluster of which one node has a small disk of its own."""
    place = tmp_path / "node-1"
    place.mkdir()
    with small_disk_at(place):
        yield tmp_path


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


def write_many(cluster, topic, count):
    """How many of these acks=all writes were acknowledged, with a client's usual retries."""
    errors = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "acks": "all",
            "message.timeout.ms": WITHIN_S * 1000,
            "log_level": 0,
        }
    )
    for number in range(count):
        producer.produce(
            topic,
            VALUE[:1024],
            partition=number % 3,
            on_delivery=lambda error, _: errors.append(error),
        )
    producer.flush(WITHIN_S)
    return sum(error is None for error in errors)


def metrics_of(cluster, node_id):
    url = f"http://127.0.0.1:{cluster.http_port(node_id)}/metrics"
    with urllib.request.urlopen(url, timeout=WITHIN_S) as answer:
        return answer.read().decode()


def test_a_leader_with_a_full_disk_hands_over_to_replicas_with_room(small_disk_of_node_1):
    node = small_disk_of_node_1 / "node-1"
    with Cluster(brokers=3, directory=small_disk_of_node_1) as cluster:
        topic = cluster.topic("orders", assignment=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        assert write_many(cluster, topic, 30) == 30
        process = cluster.pid(1)
        cluster.wait((cluster.data_dir(1) / "disk.reserve").exists)
        fill_with(node / "ballast")
        assert write_many(cluster, topic, 1_000) == 1_000
        cluster.wait(lambda: all(1 not in cluster.partition(topic, n).isr for n in range(3)))
        (finding,) = cluster.state(1)["findings"]
        assert finding["kind"] == "disk-full"
        assert finding["subject"] == str(cluster.data_dir(1))
        assert f'tidelog_log_dir_full{{dir="{cluster.data_dir(1)}"}} 1.0' in metrics_of(cluster, 1)
        at = ("-b", cluster.bootstrap_servers)
        for command in (["cluster", "health"], ["explain", "orders-0"]):
            said = CliRunner().invoke(cli, [*command, *at]).stdout
            assert f"disk of {cluster.data_dir(1)} on broker 1 is full: " in said
            assert f"of {DISK_BYTES:,} bytes are free" in said
        cluster.topic("later", assignment=[[2, 3, 1]])  # metadata and small files still fit
        assert cluster.pid(1) == process
        (node / "ballast").unlink()
        cluster.wait(lambda: all(1 in cluster.partition(topic, n).isr for n in range(3)))
        assert cluster.state(1)["findings"] == []
        assert "Traceback" not in cluster.log(1)
