"""Who may do what, on a real node: set up with our commands, lived in by librdkafka."""

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from support.secure_nodes import GUARD_S, SecureNodes

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ACCESS = {
    "authorizer.class.name": AUTHORIZER,
    "super.users": "User:alice;User:broker;User:CN=node1,OU=nodes",
}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNodes]:
    with SecureNodes(tmp_path_factory.mktemp("access"), config=ACCESS) as nodes:
        secret = nodes.directory / "secret"
        secret.write_text("ebb\n")
        tidelog(nodes, "user", "add", "bob", "--password-file", str(secret))
        yield nodes


def settings(nodes: SecureNodes, user: str, password: str, **more: str) -> dict[str, str]:
    return {
        "bootstrap.servers": nodes.for_passwords,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": password,
        "ssl.ca.location": str(nodes.ca_file),
        **more,
    }


def alice(nodes: SecureNodes, **more: str) -> dict[str, str]:
    return settings(nodes, "alice", "tide", **more)


def bob(nodes: SecureNodes, **more: str) -> dict[str, str]:
    return settings(nodes, "bob", "ebb", **more)


def asked_by(
    nodes: SecureNodes, who: dict[str, str], *words: str
) -> subprocess.CompletedProcess[str]:
    file = nodes.directory / f"{who['sasl.username']}.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in who.items()))
    command = [sys.executable, "-m", "tidelog", *words, "--command-config", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=GUARD_S)


def tidelog(nodes: SecureNodes, *words: str) -> str:
    """As alice, who is a super user."""
    done = asked_by(nodes, alice(nodes), *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def create(nodes: SecureNodes, name: str) -> None:
    admin = AdminClient(alice(nodes))
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(GUARD_S)


def outcome(nodes: SecureNodes, topic: str) -> int:
    """The code that bob's produce ends with."""
    codes: list[int] = []
    producer = Producer(bob(nodes, **{"message.timeout.ms": "20000"}))
    producer.produce(
        topic, b"v", on_delivery=lambda error, _: codes.append(error.code() if error else 0)
    )
    producer.flush(GUARD_S)
    return codes[0]


def test_a_user_writes_what_he_may_write(nodes: SecureNodes) -> None:
    create(nodes, "orders")
    denied = KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert outcome(nodes, "orders") == denied
    told = tidelog(nodes, "acl", "add", "--user", "bob", "--allow", "write", "--topic", "ord*")
    assert told == "User:bob may write topic ord* from *\n"
    assert outcome(nodes, "orders") == 0
    tidelog(nodes, "acl", "add", "--user", "bob", "--deny", "write", "--topic", "orders")
    assert outcome(nodes, "orders") == denied
    assert "2 rules removed" in tidelog(nodes, "acl", "remove", "--user", "bob")
    assert json.loads(tidelog(nodes, "acl", "list", "-o", "json")) == []


def read_by_bob(nodes: SecureNodes, topic: str, group: str) -> bytes | int:
    """A value, or the code of the refusal."""
    consumer = Consumer(bob(nodes, **{"group.id": group, "auto.offset.reset": "earliest"}))
    consumer.subscribe([topic])
    end = time.monotonic() + GUARD_S
    try:
        while time.monotonic() < end:
            message = consumer.poll(0.5)
            if message is not None:
                return message.error().code() if message.error() else message.value()
    finally:
        consumer.close()
    raise AssertionError("neither a record nor a refusal")


def test_a_user_reads_with_a_rule_for_the_topic_and_one_for_the_group(nodes: SecureNodes) -> None:
    create(nodes, "bills")
    producer = Producer(alice(nodes))
    producer.produce("bills", b"a bill")
    assert producer.flush(GUARD_S) == 0
    assert read_by_bob(nodes, "bills", "readers") == KafkaError.GROUP_AUTHORIZATION_FAILED
    tidelog(nodes, "acl", "add", "--user", "bob", "--allow", "read", "--group", "readers")
    assert read_by_bob(nodes, "bills", "readers") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    tidelog(nodes, "acl", "add", "--user", "bob", "--allow", "read", "--topic", "bills")
    assert read_by_bob(nodes, "bills", "readers") == b"a bill"


def next_event(nodes: SecureNodes, kind: str) -> dict[str, Any]:
    """The first of this kind in the stream of the node's events."""
    connection = http.client.HTTPConnection("127.0.0.1", nodes.http_port(1), timeout=GUARD_S)
    try:
        connection.request("GET", "/events?since=0")
        answer = connection.getresponse()
        while True:
            line = answer.readline().decode().strip()
            if line.startswith("data:") and kind in line:
                found: dict[str, Any] = json.loads(line.removeprefix("data:"))
                return found
    finally:
        connection.close()


def test_a_user_administers_nothing(nodes: SecureNodes) -> None:
    admin = AdminClient(bob(nodes))
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([NewTopic("mine", 1, 1)])["mine"].result(GUARD_S)
    assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    for words in (("acl", "list"), ("user", "list"), ("quota", "list")):
        done = asked_by(nodes, bob(nodes), *words)
        assert done.returncode == 1
        assert "Cluster authorization failed" in done.stderr
    refused_to_bob = next_event(nodes, "AccessDenied")
    assert refused_to_bob["principal"] == "User:bob"
    nodes.wait_for_line(1, "may not CREATE topic mine (CreateTopics)")
    nodes.wait_for_line(1, "User:alice from 127.0.0.1: CreateTopics, topic orders")


def test_quotas_are_set_listed_and_felt(nodes: SecureNodes) -> None:
    create(nodes, "flood")
    tidelog(nodes, "acl", "add", "--user", "bob", "--allow", "write", "--topic", "flood")
    tidelog(nodes, "quota", "set", "--user", "bob", "producer_byte_rate=20000")
    (row,) = json.loads(tidelog(nodes, "quota", "list", "-o", "json"))
    assert (row["user"], row["key"], row["value"]) == ("bob", "producer_byte_rate", 20000)
    producer = Producer(bob(nodes, **{"linger.ms": "0", "batch.num.messages": "1"}))
    for _ in range(6):
        producer.produce("flood", b"x" * 40_000)
    producer.flush(GUARD_S)
    status, metrics = nodes.get(1, "/metrics")
    assert status == 200
    (line,) = [
        each
        for each in metrics.splitlines()
        if each.startswith("tidelog_quota_throttled_produces_total ")
    ]
    assert float(line.split()[1]) >= 1
    tidelog(nodes, "quota", "set", "--user", "bob", "--remove", "producer_byte_rate")
    assert json.loads(tidelog(nodes, "quota", "list", "-o", "json")) == []


def test_users_come_and_go(nodes: SecureNodes) -> None:
    listed = json.loads(tidelog(nodes, "user", "list", "-o", "json"))
    assert {"user": "bob", "mechanism": "SCRAM-SHA-512", "iterations": 10000} in listed
    secret = nodes.directory / "carol"
    secret.write_text("spring tide\n")
    tidelog(nodes, "user", "add", "carol", "--password-file", str(secret))
    carol = settings(nodes, "carol", "spring tide")
    assert AdminClient(carol).list_topics(timeout=GUARD_S).topics == {}
    tidelog(nodes, "user", "remove", "carol")
    errors: list[KafkaError] = []
    admin = AdminClient({**carol, "error_cb": errors.append, "log_level": 0})
    end = time.monotonic() + GUARD_S
    while not errors and time.monotonic() < end:
        admin.poll(0.1)
    assert errors[0].code() == KafkaError._AUTHENTICATION
