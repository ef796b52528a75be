"""`tidelog up --secure`: one command, and nobody without a login gets in."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tidelog.config.properties import parse_properties

GUARD_S = 60
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def tidelog(directory: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tidelog", *map(str, arguments)],
        cwd=directory,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )


def up(directory: Path) -> None:
    started = tidelog(directory, "up", "--secure", "--detach", "--brokers", "2", "--port", "0")
    assert started.returncode == 0, started.stderr


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A directory in which a secured cluster of two brokers runs."""
    directory = tmp_path_factory.mktemp("secured")
    try:
        up(directory)
        yield directory
    finally:
        tidelog(directory, "down")


def admin_login(directory: Path) -> dict[str, str]:
    path = directory / ".tidelog/dev/secure/users/admin/librdkafka.properties"
    return {each.key: each.value for each in parse_properties(path.read_text(), str(path)).entries}


def delivery_error(settings: dict[str, str], topic: str) -> object:
    """What becomes of one record; None if it was written."""
    told: list[object] = []
    producer = Producer({"message.timeout.ms": 10_000, **settings})
    producer.produce(topic, b"hello", on_delivery=lambda error, _: told.append(error))
    producer.flush(20)
    return told[0]


def test_commands_in_the_directory_log_in_by_themselves(here):
    created = tidelog(here, "topic", "create", "orders", "-p", "2")
    assert created.stdout == "orders created: 2 partitions, replication factor 2\n", created.stderr
    written = tidelog(here, "produce", "orders", "--value", "hello")
    assert written.stdout.startswith("1 record written"), written.stderr
    described = tidelog(here, "cluster", "describe", "-o", "json")
    assert len(json.loads(described.stdout)["brokers"]) == 2


def test_audits_log_in_too(here):
    tidelog(here, "topic", "create", "compared", "-p", "1")
    tidelog(here, "produce", "compared", "--value", "hello")
    compared = tidelog(here, "audit", "replicas", "--topic", "compared", "-o", "json")
    assert json.loads(compared.stdout)["high_watermarks_from"] == "brokers", compared.stderr
    login = here / ".tidelog/dev/secure/users/admin/client.properties"
    history = here / "history.parquet"
    words = ("--for", "1s", "--history", history, "--keep", "-o", "json")
    ran = tidelog(here, "audit", "run", "--command-config", login, *words)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["acknowledged"] > 0
    judged = tidelog(here, "audit", "history", history, "--command-config", login, "-o", "json")
    assert judged.returncode == 0, judged.stderr
    assert json.loads(judged.stdout)["read_back"] > 0


def test_a_foreign_client_gets_in_with_the_file_that_was_made_for_it(here):
    tidelog(here, "topic", "create", "foreign", "-p", "1")
    assert delivery_error(admin_login(here), "foreign") is None


@pytest.mark.parametrize(
    "change",
    [
        {"sasl.password": "wrong"},
        {"security.protocol": "PLAINTEXT"},
        {"security.protocol": "SASL_PLAINTEXT"},
        {"security.protocol": "SSL"},
    ],
    ids=["the password", "TLS and a login", "TLS", "a login"],
)
def test_nobody_gets_in_without(here, change):
    with pytest.raises(KafkaException, match=r"_TRANSPORT|_TIMED_OUT|_AUTHENTICATION"):
        AdminClient(admin_login(here) | change).list_topics(timeout=3)


def test_a_secured_cluster_keeps_its_keys_and_its_users_when_it_is_started_again(tmp_path):
    up(tmp_path)
    try:
        assert tidelog(tmp_path, "topic", "create", "kept", "-p", "1").returncode == 0
        before = admin_login(tmp_path)
        key = (tmp_path / ".tidelog/dev/secure/nodes/1/node.pem").read_bytes()
        assert tidelog(tmp_path, "down").returncode == 0
        refused = tidelog(tmp_path, "up", "--detach", "--brokers", "2", "--port", "0")
        assert "it was made with --secure" in refused.stderr
        up(tmp_path)
        assert (tmp_path / ".tidelog/dev/secure/nodes/1/node.pem").read_bytes() == key
        assert admin_login(tmp_path)["sasl.password"] == before["sasl.password"]
        listed = tidelog(tmp_path, "topic", "list")
        assert "kept" in listed.stdout, listed.stderr
    finally:
        tidelog(tmp_path, "down")
