"""Clients that others wrote, over TLS: by password, by certificate, and refused.

One node, as a process. What each client says when it is refused is what it says to Kafka.
"""

import asyncio
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from e2e.clients import java_driver
from support.certificates import DAY, Authority
from support.programs import program
from support.secure_nodes import GUARD_S, SCRAM_MODULE, SecureNodes
from tidelog.config.properties import write_properties

JAVA_VERSION = "4.3.0"
VALUES = [b"tide %d" % number for number in range(20)]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNodes]:
    with SecureNodes(tmp_path_factory.mktemp("secure")) as nodes:
        yield nodes


def by_password(nodes: SecureNodes, mechanism="SCRAM-SHA-512", password="tide", **more):
    return {
        "bootstrap.servers": nodes.for_passwords,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": password,
        "ssl.ca.location": str(nodes.ca_file),
        **more,
    }


def by_certificate(nodes: SecureNodes, leaf=None):
    leaf = leaf or nodes.authority.leaf({"OU": "people", "CN": "Alice"}, hosts=())
    path = str(nodes.leaf_file("alice", leaf))
    return {
        "bootstrap.servers": nodes.for_certificates,
        "security.protocol": "SSL",
        "ssl.ca.location": str(nodes.ca_file),
        "ssl.certificate.location": path,
        "ssl.key.location": path,
    }


# ---- librdkafka


def there_and_back(settings, topic: str) -> list[bytes]:
    producer = Producer(settings)
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(GUARD_S) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    end = time.monotonic() + GUARD_S
    while len(found) < len(VALUES) and time.monotonic() < end:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append(message.value())
    consumer.close()
    return found


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"])
def test_confluent_kafka_comes_by_password(nodes, mechanism):
    topic = f"confluent-{mechanism.lower()}"
    assert there_and_back(by_password(nodes, mechanism), topic) == VALUES


def test_confluent_kafka_comes_by_certificate(nodes):
    assert there_and_back(by_certificate(nodes), "confluent-mtls") == VALUES


def errors_of(settings) -> list[KafkaError]:
    """What librdkafka tells of a cluster that it does not get into."""
    errors: list[KafkaError] = []
    admin = AdminClient({**settings, "error_cb": errors.append, "log_level": 0})
    end = time.monotonic() + GUARD_S
    while not errors and time.monotonic() < end:
        admin.poll(0.1)
    return errors


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_confluent_kafka_with_a_wrong_password_fails_to_authenticate(nodes, mechanism):
    error = errors_of(by_password(nodes, mechanism, password="ebb"))[0]
    assert error.code() == KafkaError._AUTHENTICATION
    told = {"PLAIN": "unknown user or wrong password", "SCRAM-SHA-512": "(SCRAM-SHA-512)"}
    assert told[mechanism] in error.str()


def test_confluent_kafka_with_a_mechanism_that_is_not_offered_is_told_which_are(nodes):
    settings = by_password(nodes, "OAUTHBEARER")
    settings["sasl.oauthbearer.config"] = "principal=alice"
    settings["enable.sasl.oauthbearer.unsecure.jwt"] = "true"
    error = errors_of(settings)[0]
    assert error.code() == KafkaError._AUTHENTICATION
    assert "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN" in error.str()


def test_confluent_kafka_does_not_trust_another_authority(nodes, tmp_path):
    stranger = Authority("another").write(tmp_path / "other.pem")
    settings = by_password(nodes, **{"ssl.ca.location": str(stranger)})
    assert "certificate verify failed" in errors_of(settings)[0].str()


def elsewhere(settings):
    """The same place under a name that is not in its certificate."""
    settings["bootstrap.servers"] = settings["bootstrap.servers"].replace("localhost", "127.0.0.1")
    return settings


def test_a_server_under_a_wrong_name_is_not_trusted(nodes):
    assert "certificate verify failed" in errors_of(elsewhere(by_password(nodes)))[0].str()
    assert (
        "IP address mismatch"
        in tidelog(nodes, elsewhere(by_password(nodes)), "topic", "list").stderr
    )
    told = java(nodes, elsewhere(java_by_password(nodes)), "java-elsewhere")
    assert told.startswith("SslAuthenticationException: SSL handshake failed")


def test_a_client_certificate_that_has_expired_is_refused(nodes):
    expired = nodes.authority.leaf("alice", hosts=(), expires_in=-DAY)
    error = errors_of(by_certificate(nodes, expired))[0]
    assert "alert certificate expired" in error.str()


# ---- kafka-python


def kafka_python(nodes, password="tide", user="alice"):
    host, port = nodes.for_passwords.split(":")
    return {
        "bootstrap_servers": f"{host}:{port}",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": user,
        "sasl_plain_password": password,
        "ssl_cafile": str(nodes.ca_file),
    }


@pytest.fixture
def kafka():
    with warnings.catch_warnings():  # it loads its schemas with a call that Python will drop
        warnings.simplefilter("ignore", DeprecationWarning)
        import kafka

        yield kafka


def kafka_python_by_certificate(nodes, leaf=None):
    path = by_certificate(nodes, leaf)["ssl.key.location"]
    return {
        "bootstrap_servers": nodes.for_certificates,
        "security_protocol": "SSL",
        "ssl_cafile": str(nodes.ca_file),
        "ssl_certfile": path,
        "ssl_keyfile": path,
    }


@pytest.mark.parametrize("settings", [kafka_python, kafka_python_by_certificate])
def test_kafka_python_comes_by_password_and_by_certificate(nodes, kafka, settings):
    given, topic = settings(nodes), settings.__name__
    producer = kafka.KafkaProducer(**given)
    for value in VALUES:
        producer.send(topic, value)
    producer.flush(GUARD_S)
    producer.close()
    consumer = kafka.KafkaConsumer(
        topic, **given, auto_offset_reset="earliest", consumer_timeout_ms=GUARD_S * 1000
    )
    assert [next(consumer).value for _ in VALUES] == VALUES
    consumer.close()


def test_kafka_python_with_a_wrong_password_fails_to_authenticate(nodes, kafka):
    """It tries again until its time is over. What it is told it does not always tell itself: it
    throws away an answer that comes together with the end of the connection."""
    from kafka.errors import KafkaTimeoutError

    with pytest.raises(KafkaTimeoutError):
        kafka.KafkaConsumer(**kafka_python(nodes, "ebb"), bootstrap_timeout_ms=1_000)
    nodes.wait_for_line(1, "refused: wrong password")


# ---- aiokafka


def aiokafka(nodes, password="tide", user="alice"):
    return {
        "bootstrap_servers": nodes.for_passwords,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": user,
        "sasl_plain_password": password,
        "ssl_context": create_ssl_context(cafile=str(nodes.ca_file)),
    }


def aiokafka_by_certificate(nodes, leaf=None):
    path = by_certificate(nodes, leaf)["ssl.key.location"]
    context = create_ssl_context(cafile=str(nodes.ca_file), certfile=path, keyfile=path)
    return {
        "bootstrap_servers": nodes.for_certificates,
        "security_protocol": "SSL",
        "ssl_context": context,
    }


def run_aiokafka(story):
    """`asyncio.run`, until all sockets are closed. asyncio closes a connection with TLS once the
    server has closed its side. After a failed login aiokafka does not wait for that."""

    async def until_closed():
        try:
            return await story
        finally:
            transports = asyncio.get_running_loop()._transports
            while any(each._sock is not None for each in transports.values()):
                await asyncio.sleep(0.01)

    return asyncio.run(asyncio.wait_for(until_closed(), GUARD_S))


async def aiokafka_there_and_back(settings, topic):
    producer = AIOKafkaProducer(**settings)
    await producer.start()
    for value in VALUES:
        await producer.send_and_wait(topic, value)
    await producer.stop()
    consumer = AIOKafkaConsumer(topic, **settings, auto_offset_reset="earliest")
    await consumer.start()
    found = [(await consumer.getone()).value for _ in VALUES]
    await consumer.stop()
    return found


@pytest.mark.parametrize("settings", [aiokafka, aiokafka_by_certificate])
def test_aiokafka_comes_by_password_and_by_certificate(nodes, settings):
    story = aiokafka_there_and_back(settings(nodes), settings.__name__)
    assert run_aiokafka(story) == VALUES


def test_aiokafka_with_a_wrong_password_fails_to_authenticate(nodes):
    from aiokafka.errors import KafkaError as AiokafkaError

    async def story():
        producer = AIOKafkaProducer(**aiokafka(nodes, "ebb"))
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(AiokafkaError):
        run_aiokafka(story())
    nodes.wait_for_line(1, "refused: wrong password")


# ---- kcat


def kcat(settings, topic: str) -> list[str]:
    """The command, without what it is to do."""
    given = dict(settings)
    bootstrap = given.pop("bootstrap.servers")
    options = [part for name, value in given.items() for part in ("-X", f"{name}={value}")]
    return [program("kcat"), "-b", bootstrap, "-t", topic, *options]


@pytest.mark.parametrize("settings", [by_password, by_certificate])
def test_kcat_comes_by_password_and_by_certificate(nodes, settings):
    base = kcat(settings(nodes), f"kcat-{settings.__name__}")
    lines = b"".join(value + b"\n" for value in VALUES)
    subprocess.run([*base, "-P"], input=lines, check=True, timeout=GUARD_S)
    read = subprocess.run(
        [*base, "-C", "-o", "beginning", "-e", "-q"],
        capture_output=True,
        check=True,
        timeout=GUARD_S,
    )
    assert read.stdout == lines


# ---- Java


def java(nodes: SecureNodes, settings: dict[str, str], topic: str) -> str:
    """What the program prints: the values that it read back, or how it was refused."""
    source = java_driver.HERE / "Secure.java"
    try:
        path = java_driver.built(JAVA_VERSION, source)
    except java_driver.JavaMissing as reason:
        pytest.skip(str(reason))
    file = nodes.directory / f"{topic}.properties"
    file.write_text(write_properties(settings))
    command = ["java", *java_driver.JVM_OPTIONS, "-cp", path, "Secure", str(file), topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * GUARD_S, check=False)
    return done.stdout


def java_by_password(
    nodes: SecureNodes, password="tide", ca_file=None, user="alice"
) -> dict[str, str]:
    return {
        "bootstrap.servers": nodes.for_passwords,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{SCRAM_MODULE} required username="{user}" password="{password}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ca_file or nodes.ca_file),
    }


def java_by_certificate(nodes: SecureNodes, leaf=None) -> dict[str, str]:
    leaf = leaf or nodes.authority.leaf({"OU": "people", "CN": "Alice"}, hosts=())
    return {
        "bootstrap.servers": nodes.for_certificates,
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": nodes.authority.certificate,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": leaf.key,
        "ssl.keystore.certificate.chain": leaf.certificate,
    }


JAVA_READ = "".join(f"tide {number}\n" for number in range(5))


@pytest.mark.parametrize("settings", [java_by_password, java_by_certificate])
def test_java_comes_by_password_and_by_certificate(nodes, settings):
    assert java(nodes, settings(nodes), settings.__name__) == JAVA_READ


def test_java_with_a_wrong_password_fails_to_authenticate(nodes):
    told = java(nodes, java_by_password(nodes, "ebb"), "java-refused")
    assert told.startswith("SaslAuthenticationException: ")
    assert "unknown user or wrong password (SCRAM-SHA-512)" in told


def test_java_does_not_trust_another_authority(nodes, tmp_path):
    stranger = Authority("another").write(tmp_path / "other.pem")
    told = java(nodes, java_by_password(nodes, ca_file=stranger), "java-untrusting")
    assert told.startswith("SslAuthenticationException: SSL handshake failed")


# ---- our own command line


def tidelog(nodes, settings, *arguments, given=""):
    path = Path(nodes.directory) / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return subprocess.run(
        [sys.executable, "-m", "tidelog", *arguments, "--command-config", str(path)],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=GUARD_S,
    )


@pytest.mark.parametrize("settings", [by_password, by_certificate])
def test_our_commands_come_by_password_and_by_certificate(nodes, settings):
    topic = f"ours-{settings.__name__}"
    made = tidelog(nodes, settings(nodes), "topic", "create", topic)
    assert made.returncode == 0, made.stderr
    lines = "".join(f"{value.decode()}\n" for value in VALUES)
    wrote = tidelog(nodes, settings(nodes), "produce", topic, given=lines)
    assert wrote.returncode == 0, wrote.stderr
    read = tidelog(
        nodes, settings(nodes), "consume", topic, "--from", "start", "-n", "20", "-f", "%v\n"
    )
    assert read.stdout == lines, read.stderr


def test_our_commands_say_that_a_password_is_wrong(nodes):
    result = tidelog(nodes, by_password(nodes, password="ebb"), "topic", "list", "-o", "json")
    told = json.loads(result.stderr)
    assert "SASL_AUTHENTICATION_FAILED (58)" in told["error"]
    assert "sasl.password in --command-config" in told["try"]
    assert "ebb" not in result.stdout + result.stderr


def test_our_commands_say_that_a_server_is_not_trusted(nodes, tmp_path):
    stranger = Authority("another").write(tmp_path / "other.pem")
    settings = by_password(nodes, **{"ssl.ca.location": str(stranger)})
    result = tidelog(nodes, settings, "topic", "list")
    assert "the connection is not secure" in result.stderr
    assert "certificate verify failed" in result.stderr


def test_a_client_without_a_login_is_told_what_may_be_missing(nodes):
    settings = {"bootstrap.servers": nodes.for_passwords}
    result = tidelog(nodes, settings, "topic", "list", "--timeout", "1s")
    assert "if it wants TLS or a login, --command-config FILE" in result.stderr


def test_a_server_whose_certificate_has_expired_is_not_trusted(tmp_path):
    with SecureNodes(tmp_path) as nodes:
        nodes.node_leaf("late", days=-1).write(nodes.key_file(1))
        end = time.monotonic() + GUARD_S
        while "certificate of CLIENTS has expired" not in nodes.get(1, "/healthz")[1]:
            assert time.monotonic() < end, nodes.log(1)
            time.sleep(0.1)
        assert "certificate verify failed" in errors_of(by_password(nodes))[0].str()
        result = tidelog(nodes, by_password(nodes), "topic", "list")
        assert "certificate has expired" in result.stderr
