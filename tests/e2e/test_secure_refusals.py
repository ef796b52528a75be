"""What clients that others wrote say when they are refused: an expired certificate, a wrong
password, a missing rule. Each says what it says to Kafka."""

import subprocess
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AiokafkaError
from aiokafka.errors import TopicAuthorizationFailedError

from e2e.test_secure_clients import (
    aiokafka,
    aiokafka_by_certificate,
    by_certificate,
    by_password,
    java,
    java_by_certificate,
    java_by_password,
    kafka,
    kafka_python,
    kafka_python_by_certificate,
    kcat,
    run_aiokafka,
)
from support.certificates import DAY, Leaf
from support.secure_nodes import GUARD_S, SecureNodes

__all__ = ["kafka"]
SECRET = "secret"
ACCESS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:alice;User:broker;User:CN=node1,OU=nodes",
    "connection.failed.authentication.delay.ms": "0",
}


class WithBob(SecureNodes):
    """Bob has a password and not a single right."""

    users = (*SecureNodes.users, (512, "bob", "ebb"))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNodes]:
    with WithBob(tmp_path_factory.mktemp("refusals"), config=ACCESS) as nodes:
        yield nodes


def expired(nodes: SecureNodes) -> Leaf:
    return nodes.authority.leaf({"OU": "people", "CN": "Alice"}, hosts=(), expires_in=-DAY)


# ---- kafka-python


def test_kafka_python_with_an_expired_certificate_gets_no_answer(nodes, kafka):
    """It keeps the reason to itself; the node tells it."""
    settings = kafka_python_by_certificate(nodes, expired(nodes))
    with pytest.raises(kafka.errors.KafkaError):
        kafka.KafkaConsumer(**settings, bootstrap_timeout_ms=1_000)
    nodes.wait_for_line(1, "certificate has expired")


def test_kafka_python_without_a_rule_is_not_authorized(nodes, kafka):
    producer = kafka.KafkaProducer(**kafka_python(nodes, "ebb", "bob"), max_block_ms=20_000)
    with pytest.raises(kafka.errors.TopicAuthorizationFailedError):
        producer.send(SECRET, b"v").get(GUARD_S)
    producer.close()


# ---- aiokafka


async def aiokafka_writes(settings) -> None:
    producer = AIOKafkaProducer(**settings)
    try:
        await producer.start()
        await producer.send_and_wait(SECRET, b"v")
    finally:
        await producer.stop()


def test_aiokafka_with_an_expired_certificate_does_not_connect(nodes):
    with pytest.raises(AiokafkaError):
        run_aiokafka(aiokafka_writes(aiokafka_by_certificate(nodes, expired(nodes))))
    nodes.wait_for_line(1, "certificate has expired")


def test_aiokafka_without_a_rule_is_not_authorized(nodes):
    with pytest.raises(TopicAuthorizationFailedError):
        run_aiokafka(aiokafka_writes(aiokafka(nodes, "ebb", "bob")))


# ---- kcat


def kcat_says(settings, *what: str, given: str | None = None) -> str:
    command = [*kcat(settings, SECRET), *what]
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, check=False, timeout=GUARD_S
    )
    assert done.returncode != 0, done.stdout
    return done.stderr


def test_kcat_says_why_it_is_refused(nodes):
    listing = ("-L", "-m", "3")
    assert "SASL authentication error" in kcat_says(by_password(nodes, password="ebb"), *listing)
    late = kcat_says(by_certificate(nodes, expired(nodes)), *listing)
    assert "certificate expired" in late
    bob = by_password(nodes, password="ebb", **{"sasl.username": "bob"})
    assert "Topic authorization failed" in kcat_says(bob, "-P", given="v\n")


# ---- Java


def test_java_says_why_it_is_refused(nodes):
    late = java(nodes, java_by_certificate(nodes, expired(nodes)), SECRET)
    assert late.startswith("SslAuthenticationException: "), late
    bob = java(nodes, java_by_password(nodes, "ebb", user="bob"), SECRET)
    assert bob.startswith("TopicAuthorizationException: "), bob
    assert SECRET in bob
