"""A cluster moves from plain text to logins, TLS and rules, under the eyes of clients at work.

The settings are those of docs/rolling-to-secure.md, and so is their order. While any one node is
stopped, something new is acknowledged and read. In the end nothing acknowledged is missing.
"""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from support.rolling_nodes import NODES, RollingNodes
from support.secure_nodes import GUARD_S

TOPIC, GROUP, PARTITIONS = "orders", "order-readers", 3
PLAIN, BOTH_LISTENERS, SECRET, RULES, CLOSED = range(5)
"""The steps of the page, each after a rolling restart."""
RECORD_EVERY_S = 0.005
Settings = dict[str, str]


def until(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + GUARD_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


class Seen:
    """What all clients of the story were told, and when they read."""

    def __init__(self) -> None:
        self.acknowledged: list[str] = []
        self.failed: list[KafkaError] = []
        self.read: set[str] = set()
        self.longest_pause_s = 0.0
        self._last_read_s = time.monotonic()

    def on_delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(error)
        else:
            self.acknowledged.append((message.value() or b"").decode())

    def on_read(self, value: bytes) -> None:
        now_s = time.monotonic()
        self.longest_pause_s = max(self.longest_pause_s, now_s - self._last_read_s)
        self._last_read_s = now_s
        self.read.add(value.decode())

    def go_on(self) -> None:
        """Something that is written from now on is acknowledged and read."""
        before = len(self.acknowledged)
        until(lambda: len(self.acknowledged) >= before + 20, "nothing is acknowledged")
        until(lambda: self.read.issuperset(self.acknowledged[: before + 20]), "nothing is read")


def write(settings: Settings, name: str, seen: Seen, stop: threading.Event) -> None:
    producer = Producer({**settings, "acks": "all", "enable.idempotence": "true"})
    number = 0
    while not stop.wait(RECORD_EVERY_S):
        value = f"{name}-{number}"
        producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=seen.on_delivered)
        producer.poll(0)
        number += 1
    producer.flush(GUARD_S)


def read(settings: Settings, seen: Seen, stop: threading.Event) -> None:
    consumer = Consumer(
        {**settings, "group.id": GROUP, "auto.offset.reset": "earliest", "log_level": "0"}
    )
    consumer.subscribe([TOPIC])
    while not stop.is_set():
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            seen.on_read(message.value() or b"")
    consumer.close()


@contextmanager
def at_work(settings: Settings, name: str, seen: Seen) -> Iterator[None]:
    """A producer and a member of the group. The member ends when it has read what is written."""
    settings = {**settings, "reconnect.backoff.max.ms": "500", "log_level": "0"}
    written, enough = threading.Event(), threading.Event()
    writer = threading.Thread(target=write, args=(settings, name, seen, written))
    reader = threading.Thread(target=read, args=(settings, seen, enough))
    writer.start()
    reader.start()
    try:
        yield
        written.set()
        writer.join(2 * GUARD_S)
        all_of_it = set(seen.acknowledged)
        until(lambda: seen.read >= all_of_it, "not everything is read")
    finally:
        written.set()
        enough.set()
        writer.join(2 * GUARD_S)
        reader.join(2 * GUARD_S)


def in_the_open(nodes: RollingNodes) -> Settings:
    return {"bootstrap.servers": nodes.addresses("PLAINTEXT")}


def logged_in(nodes: RollingNodes, user: str) -> Settings:
    return {
        "bootstrap.servers": nodes.addresses("CLIENTS"),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": f"secret of {user}",
        "ssl.ca.location": str(nodes.ca_file),
    }


def tidelog(nodes: RollingNodes, settings: Settings, *words: str) -> None:
    file = nodes.directory / "command.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    command = [sys.executable, "-m", "tidelog", *words, "--command-config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=GUARD_S)
    assert done.returncode == 0, done.stderr


def add_users(nodes: RollingNodes, *names: str) -> None:
    for name in names:
        secret = nodes.directory / name
        secret.write_text(f"secret of {name}\n")
        tidelog(nodes, in_the_open(nodes), "user", "add", name, "--password-file", str(secret))


def add_rules(nodes: RollingNodes) -> None:
    admin, add = logged_in(nodes, "admin"), ("acl", "add", "--user", "orders-app")
    tidelog(nodes, admin, *add, "--allow", "read", "--allow", "write", "--topic", TOPIC)
    tidelog(nodes, admin, *add, "--allow", "read", "--group", GROUP)


def everybody_in_sync(settings: Settings) -> Callable[[], None]:
    admin = AdminClient({**settings, "log_level": "0"})

    def is_so() -> bool:
        topics = admin.list_topics(timeout=GUARD_S).topics.values()
        partitions = [part for topic in topics for part in topic.partitions.values()]
        return bool(partitions) and all(len(part.isrs) == len(NODES) for part in partitions)

    return lambda: until(is_so, "a replica is not in sync")


def everything(settings: Settings) -> list[str]:
    """What is in the topic, from its beginning."""
    found: list[str] = []
    consumer = Consumer({**settings, "group.id": GROUP, "enable.auto.commit": "false"})
    partitions = [TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)]
    count = sum(consumer.get_watermark_offsets(each, GUARD_S)[1] for each in partitions)
    consumer.assign(partitions)
    end = time.monotonic() + GUARD_S
    while len(found) < count and time.monotonic() < end:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append((message.value() or b"").decode())
    consumer.close()
    return found


def assert_nothing_lost(nodes: RollingNodes, seen: Seen) -> None:
    assert seen.failed == []
    found = everything(logged_in(nodes, "orders-app"))
    assert len(found) == len(set(found)), "a record is there twice"
    assert set(found) == set(seen.acknowledged)
    assert seen.read == set(found)
    print(f"{len(found)} records; readers paused for {seen.longest_pause_s:.2f} s at most")


def assert_closed(nodes: RollingNodes) -> None:
    for node in NODES:
        for listener in ("PLAINTEXT", "CONTROLLER"):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("localhost", nodes.port(node, listener)), GUARD_S)
    admin = AdminClient({**logged_in(nodes, "orders-app"), "log_level": "0"})
    with pytest.raises(Exception, match="TOPIC_AUTHORIZATION_FAILED"):
        admin.create_topics([NewTopic("mine", 1, 1)])["mine"].result(GUARD_S)


def create_topic(settings: Settings) -> None:
    admin = AdminClient(settings)
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, len(NODES))])[TOPIC].result(GUARD_S)


@pytest.mark.long
def test_the_whole_page(tmp_path: Path) -> None:
    seen = Seen()
    with RollingNodes(tmp_path) as nodes:
        plain, app = in_the_open(nodes), logged_in(nodes, "orders-app")
        create_topic(plain)
        with at_work(plain, "plain", seen):
            seen.go_on()
            add_users(nodes, "admin", "orders-app")
            nodes.roll(BOTH_LISTENERS, seen.go_on, everybody_in_sync(plain))
            nodes.roll(SECRET, seen.go_on, everybody_in_sync(plain))
            with at_work(app, "both", seen):
                seen.go_on()
        with at_work(app, "secure", seen):
            nodes.roll(RULES, seen.go_on, everybody_in_sync(app))
            add_rules(nodes)
            seen.go_on()
            nodes.roll(CLOSED, seen.go_on, everybody_in_sync(app))
            seen.go_on()
        assert_nothing_lost(nodes, seen)
        assert_closed(nodes)


def test_nodes_move_to_tls_while_clients_use_both_listeners(tmp_path: Path) -> None:
    """The step in which nodes of the old and the new kind differ most."""
    seen = Seen()
    with RollingNodes(tmp_path, first_step=BOTH_LISTENERS) as nodes:
        plain, app = in_the_open(nodes), logged_in(nodes, "orders-app")
        create_topic(plain)
        add_users(nodes, "orders-app")
        with at_work(plain, "plain", seen):
            seen.go_on()
            nodes.roll(SECRET, seen.go_on, everybody_in_sync(plain))
            with at_work(app, "secure", seen):
                seen.go_on()
        assert_nothing_lost(nodes, seen)
