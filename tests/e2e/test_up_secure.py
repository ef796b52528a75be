"""`tidelog up --secure`: one command, and nobody without a login gets in."""

import json
import os
import ssl
import subprocess
import sys
from http.client import HTTPSConnection
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tidelog.cluster import state as states
from tidelog.cluster.node_http import http_of
from tidelog.cluster.node_state import read_events, read_state
from tidelog.cluster.nodes import LocalNodes
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
    started = tidelog(
        directory, "up", "--no-console", "--secure", "--detach", "--brokers", "2", "--port", "0"
    )
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
    return properties_of(directory / ".tidelog/dev/secure/users/admin/librdkafka.properties")


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


def http(directory: Path, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
    """Asked of the first node, over its own TLS."""
    secure = directory / ".tidelog/dev/secure"
    state = json.loads((directory / ".tidelog/dev/cluster.json").read_text())
    context = ssl.create_default_context(cafile=str(secure / "ca.pem"))
    port = state["nodes"][0]["http_port"]
    connection = HTTPSConnection("127.0.0.1", port, context=context, timeout=GUARD_S)
    try:
        connection.request(method, path, "{}" if method == "POST" else None, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_this_machine_reads_over_http_without_a_login_and_breaks_nothing(here):
    assert json.loads(http(here, "GET", "/state", {})[1])["node"] == 1
    assert "tidelog_certificate_end_seconds" in http(here, "GET", "/metrics", {})[1]
    json_body = {"Content-Type": "application/json"}
    for method, headers in (("POST", json_body), ("DELETE", {}), ("GET", {})):
        status, text = http(here, method, "/chaos", headers)
        assert status == 401, text


def test_chaos_and_reading_log_in_by_themselves(here):
    slowed = tidelog(here, "chaos", "slow", "2", "--latency", "1ms")
    assert slowed.returncode == 0, slowed.stderr
    healed = tidelog(here, "chaos", "heal")
    assert healed.returncode == 0, healed.stderr
    directory = here / ".tidelog/dev"
    state = states.load(directory)
    assert state is not None
    node = http_of(LocalNodes(directory, state), 2)
    assert (read_state(node) or {})["node"] == 2
    assert read_events(node), "what `tidelog explain` tells of groups"


def test_chaos_is_refused_to_a_user_without_rights(here):
    secret = here / "secret"
    secret.write_text("ebb\n")
    assert tidelog(here, "user", "add", "eve", "--password-file", secret).returncode == 0
    login = {**admin_login(here), "sasl.username": "eve", "sasl.password": "ebb"}
    file = here / "eve.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in login.items()))
    refused = tidelog(here, "chaos", "heal", "--command-config", file)
    assert refused.returncode == 1
    assert "User:eve may not ALTER the cluster" in refused.stderr
    assert "ebb" not in refused.stderr
    file.write_text(file.read_text().replace("ebb", "flow"))
    refused = tidelog(here, "chaos", "heal", "--command-config", file)
    assert "401" in refused.stderr
    assert "unknown user or wrong password" in refused.stderr


def properties_of(path: Path) -> dict[str, str]:
    return {each.key: each.value for each in parse_properties(path.read_text(), str(path)).entries}


def test_a_new_user_does_what_was_asked_for_and_nothing_else(here):
    for topic in ("raw-1", "refined", "hidden"):
        tidelog(here, "topic", "create", topic, "-p", "1")
    words = ("--write", "raw-*", "--read", "refined", "--group", "loaders", "-o", "json")
    added = tidelog(here, "secure", "add-user", "loader", *words)
    assert added.returncode == 0, added.stderr
    document = json.loads(added.stdout)
    files = {Path(each).name: here / each for each in document["files"]}
    names = {"client.properties", "librdkafka.properties", "python.json", "spark.json"}
    assert files.keys() == names
    assert {path.stat().st_mode & 0o777 for path in files.values()} == {0o600}
    login = properties_of(files["librdkafka.properties"])
    assert delivery_error(login, "raw-1") is None
    refused = delivery_error(login, "refined")
    assert isinstance(refused, KafkaError)
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    listed = tidelog(here, "topic", "list", "--command-config", files["client.properties"])
    assert "refined" in listed.stdout
    assert "hidden" not in listed.stdout
    assert login["sasl.password"] not in added.stdout


def test_a_user_is_made_once_and_whole(here):
    assert tidelog(here, "secure", "add-user", "once").returncode == 0
    again = tidelog(here, "secure", "add-user", "once", "--read", "orders")
    assert again.returncode == 1
    assert "there is a user once already" in again.stderr
    (here / "secret").write_text("ebb\n")
    tidelog(here, "user", "add", "known", "--password-file", here / "secret")
    known = tidelog(here, "secure", "add-user", "known")
    assert "it has a password" in known.stderr
    assert not (here / ".tidelog/dev/secure/users/known").exists(), "a login that is none"
    assert tidelog(here, "secure", "add-user", "../admin").returncode == 2


def checked(directory: Path, *words: object) -> tuple[int, list[dict[str, str]]]:
    done = tidelog(directory, "secure", "check", "-o", "json", *words)
    assert done.stdout, done.stderr
    document = json.loads(done.stdout)
    assert document["open"] == (done.returncode == 1)
    return done.returncode, document["findings"]


def texts(findings: list[dict[str, str]], level: str) -> str:
    told = [f"{each['where']}: {each['text']}" for each in findings if each["level"] == level]
    return "\n".join(told)


def test_a_stranger_gets_nothing_until_a_rule_gives_it_to_him(here):
    code, findings = checked(here)
    assert (code, texts(findings, "open"), texts(findings, "weak")) == (0, "", "")
    notes = texts(findings, "note")
    for word in ("CLIENTS of node 1", "INTERNAL of node 2", "HTTP of node 2", "User:admin"):
        assert word in notes
    assert "a login is needed: SCRAM-SHA-512" in notes
    assert "a client certificate is needed" in notes
    tidelog(here, "acl", "add", "--user", "ANONYMOUS", "--allow", "read", "--topic", "lobby")
    tidelog(here, "acl", "add", "--user", "*", "--allow", "write", "--topic", "lobby")
    try:
        code, findings = checked(here)
        assert code == 1
        assert "whoever does not log in may read topic lobby" in texts(findings, "open")
        assert "may write topic lobby" in texts(findings, "weak")
    finally:
        tidelog(here, "acl", "remove", "--topic", "lobby")


def test_without_a_login_a_check_sees_what_a_stranger_sees(here):
    code, findings = checked(here, "-b", admin_login(here)["bootstrap.servers"])
    assert code == 0
    assert "settings and rules were not looked at" in texts(findings, "note")
    assert "a login is needed: SCRAM-SHA-512" in texts(findings, "note")
    silent = tidelog(here, "secure", "check", "-b", "127.0.0.1:1", "--timeout", "1s")
    assert silent.returncode == 3


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
        refused = tidelog(
            tmp_path, "up", "--no-console", "--detach", "--brokers", "2", "--port", "0"
        )
        assert "it was made with --secure" in refused.stderr
        up(tmp_path)
        assert (tmp_path / ".tidelog/dev/secure/nodes/1/node.pem").read_bytes() == key
        assert admin_login(tmp_path)["sasl.password"] == before["sasl.password"]
        listed = tidelog(tmp_path, "topic", "list")
        assert "kept" in listed.stdout, listed.stderr
    finally:
        tidelog(tmp_path, "down")
