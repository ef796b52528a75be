"""HTTP of a secured node: TLS, logins and rights, asked by anybody over real sockets.

Loopback counts as any other address here (`tidelog.http.loopback.open=false`): a test has no other.
"""

import json
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from prometheus_client.parser import text_string_to_metric_families

from support.secure_nodes import GUARD_S, SecureNodes
from tidelog.node.http_access import GUESSES_MAX

TOKEN_KEY = ec.generate_private_key(ec.SECP256R1())
ISSUER = "https://issuer.example.org"
JSON = {"Content-Type": "application/json"}
FAILED = "tidelog_failed_logins"
SLOW = json.dumps({"latency_ms": {"7": 1}})


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNodes]:
    """One node. Alice is a super user, bob has a password and no rights."""
    directory = tmp_path_factory.mktemp("http")
    public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(TOKEN_KEY.public_key()))
    (directory / "jwks.json").write_text(json.dumps({"keys": [public]}))
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:alice;User:broker;User:CN=node1,OU=nodes",
        "tidelog.http.loopback.open": "false",
        "tidelog.chaos.enable": "true",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{directory}/jwks.json",
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }
    with SecureNodes(directory, config=config, https=True) as nodes:
        set_password(nodes, "bob", "ebb")
        yield nodes


def tidelog(nodes: SecureNodes, *words: str) -> str:
    """As alice."""
    file = nodes.directory / "alice.properties"
    file.write_text(
        f"bootstrap.servers={nodes.for_passwords}\nsecurity.protocol=SASL_SSL\n"
        "sasl.mechanism=SCRAM-SHA-512\nsasl.username=alice\nsasl.password=tide\n"
        f"ssl.ca.location={nodes.ca_file}\n"
    )
    command = [sys.executable, "-m", "tidelog", *words, "--command-config", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=GUARD_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def set_password(nodes: SecureNodes, user: str, password: str) -> None:
    secret: Path = nodes.directory / "secret"
    secret.write_text(f"{password}\n")
    tidelog(nodes, "user", "add", user, "--password-file", str(secret))


def basic(user: str, password: str) -> dict[str, str]:
    shown = b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {shown}"}


def bearer(user: str, **claims: object) -> dict[str, str]:
    document = {"sub": user, "iss": ISSUER, "exp": int(time.time()) + 3600, **claims}
    token = jwt.encode(document, TOKEN_KEY, "ES256")
    return {"Authorization": f"Bearer {token}"}


ALICE, BOB = basic("alice", "tide"), basic("bob", "ebb")


@pytest.mark.parametrize("path", ["/state", "/metrics", "/events", "/chaos", "/no/such/path"])
def test_nobody_reads_without_a_login(nodes, path):
    status, text = nodes.get(1, path)
    assert status == 401
    assert "a login is needed" in text


def test_a_probe_learns_whether_the_node_serves_and_nothing_else(nodes):
    assert nodes.get(1, "/healthz") == (200, '{"serves": true}\n')
    assert "findings" in json.loads(nodes.get(1, "/healthz", ALICE)[1])
    assert nodes.get(1, "/healthz", basic("alice", "ebb"))[0] == 401


def test_an_administrator_does_everything(nodes):
    assert json.loads(nodes.get(1, "/state", ALICE)[1])["node"] == 1
    assert "tidelog_failed_logins" in nodes.get(1, "/metrics", ALICE)[1]
    status, text = nodes.ask(1, "POST", "/chaos", {**ALICE, **JSON}, SLOW)
    assert (status, json.loads(text)["latency_ms"]) == (200, {"7": 1})
    status, text = nodes.ask(1, "DELETE", "/chaos", ALICE)
    assert (status, json.loads(text)["latency_ms"]) == (200, {})


def test_a_user_needs_rights_that_rules_give_and_take(nodes):
    status, text = nodes.get(1, "/state", BOB)
    assert (status, json.loads(text)) == (403, {"error": "User:bob may not DESCRIBE the cluster"})
    tidelog(nodes, "acl", "add", "--user", "bob", "--allow", "describe", "--cluster")
    assert nodes.get(1, "/state", BOB)[0] == 200
    assert nodes.get(1, "/chaos", BOB)[0] == 403
    status, text = nodes.ask(1, "POST", "/chaos", {**BOB, **JSON}, SLOW)
    assert (status, json.loads(text)) == (403, {"error": "User:bob may not ALTER the cluster"})
    tidelog(nodes, "acl", "remove", "--user", "bob")
    assert nodes.get(1, "/state", BOB)[0] == 403
    told = [event for event in audit_trail(nodes) if event["principal"] == "User:bob"]
    assert {"HTTP GET /state", "HTTP POST /chaos"} <= {event["api"] for event in told}


def audit_trail(nodes: SecureNodes) -> list[dict[str, str]]:
    """The refusals that the journal of the node has, by principal and request."""
    lines = [line for line in nodes.log(1).splitlines() if " may not " in line]
    return [
        {"principal": principal, "api": line.rpartition("(")[2].rstrip(")").partition(",")[0]}
        for line in lines
        for principal in ("User:bob", "User:ANONYMOUS")
        if principal in line
    ]


def test_a_bearer_token_is_as_good_as_a_password(nodes):
    assert nodes.get(1, "/state", bearer("alice"))[0] == 200
    assert nodes.get(1, "/state", bearer("bob"))[0] == 403
    for worthless in (bearer("alice", exp=1), bearer("alice", iss="https://another.example.org")):
        assert nodes.get(1, "/state", worthless)[0] == 401
    assert nodes.get(1, "/state", {"Authorization": "Digest alice"})[0] == 401


def test_another_password_counts_at_once(nodes):
    set_password(nodes, "carol", "first")
    assert nodes.get(1, "/state", basic("carol", "first"))[0] == 403
    set_password(nodes, "carol", "second")
    assert nodes.get(1, "/state", basic("carol", "first"))[0] == 401
    assert nodes.get(1, "/state", basic("carol", "second"))[0] == 403
    tidelog(nodes, "user", "remove", "carol")
    assert nodes.get(1, "/state", basic("carol", "second"))[0] == 401


def test_a_check_is_let_in_nowhere(nodes):
    document = json.loads(tidelog(nodes, "secure", "check", "-o", "json"))
    told = {each["where"].partition(" (")[0]: each["text"] for each in document["findings"]}
    assert not document["open"]
    login = "a login is needed: SCRAM-SHA-512, SCRAM-SHA-256, PLAIN"
    assert told["CLIENTS of node 1"] == login
    assert told["CERTS of node 1"] == "a client certificate is needed"
    assert told["HTTP of node 1"] == "a login is needed"
    nodes.wait_for_line(1, "no login with 'NONE' here")


def test_whoever_guesses_has_to_wait_and_is_written_down(nodes):
    """Last: from this address nobody new is let in for a minute."""
    assert nodes.get(1, "/state", ALICE)[0] == 200
    codes = [0]
    for number in range(3 * GUESSES_MAX):
        user = ("alice", "dave")[number % 2]
        codes.append(nodes.get(1, "/state", basic(user, f"guess {number}"))[0])
        if codes[-1] == 429:
            break
    assert set(codes[1:]) == {401, 429}
    assert nodes.get(1, "/state", ALICE)[0] == 200, "it was right before"
    log = nodes.log(1)
    assert "login as 'alice' from 127.0.0.1 refused: unknown user or wrong password" in log
    assert "guess 1" not in log
    assert any(event["principal"] == "User:ANONYMOUS" for event in audit_trail(nodes))
    metrics = nodes.get(1, "/metrics", ALICE)[1]
    assert failed_logins(metrics) >= GUESSES_MAX


def failed_logins(metrics: str) -> float:
    found = next(each for each in text_string_to_metric_families(metrics) if each.name == FAILED)
    return next(each.value for each in found.samples if each.labels == {"listener": "HTTP"})
