"""Three nodes that speak TLS with everybody, and with each other: brokers by password, controllers
by certificate. Certificates are renewed and run out while they serve."""

import json
import ssl
import time
from collections.abc import Callable, Iterator

import jwt
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from cryptography.hazmat.primitives.asymmetric import ec

from e2e.test_secure_clients import by_certificate, by_password, there_and_back, tidelog
from support.secure_nodes import GUARD_S, SecureNodes
from tidelog.core.security.certificates import read_certificate

BROKERS = 3
TOKEN_KEY = ec.generate_private_key(ec.SECP256R1())
ISSUER = "https://issuer.example.org"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNodes]:
    directory = tmp_path_factory.mktemp("secure")
    public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(TOKEN_KEY.public_key()))
    (directory / "jwks.json").write_text(json.dumps({"keys": [public]}))
    config = {
        "listener.name.clients.sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{directory}/jwks.json",
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": "tides",
        "connections.max.reauth.ms": "3000",
    }
    with SecureNodes(directory, brokers=BROKERS, config=config) as nodes:
        yield nodes


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + GUARD_S
    while not condition():
        assert time.monotonic() < end, "it does not come to pass"
        time.sleep(0.05)


def test_followers_follow_over_tls(nodes):
    """Also while logins run out and are renewed: they hold for three seconds here."""
    settings = by_password(nodes)
    admin = AdminClient(settings)
    admin.create_topics([NewTopic("tides", 3, 3)])["tides"].result(GUARD_S)
    producer = Producer({**settings, "acks": "all"})
    delivered = []
    end = time.monotonic() + 4
    while time.monotonic() < end:
        producer.produce(
            "tides", b"x", on_delivery=lambda error, _: delivered.append(error), partition=0
        )
        producer.poll(0.05)
    assert producer.flush(GUARD_S) == 0
    assert set(delivered) == {None}
    partitions = admin.list_topics("tides", timeout=GUARD_S).topics["tides"].partitions
    assert {len(each.isrs) for each in partitions.values()} == {BROKERS}
    for node in (1, 2, 3):
        metrics = nodes.get(node, "/metrics")[1]
        assert 'tidelog_failed_logins_total{listener="BROKERS"} 0.0' in metrics
        assert 'tidelog_connections_closed_total{reason="login-expired"} 0.0' in metrics


def test_both_listeners_serve_the_same_records(nodes):
    values = there_and_back(by_password(nodes), "listeners")
    assert values == there_and_back(by_certificate(nodes), "listeners")[: len(values)]


def test_a_bearer_token_lets_in_until_it_ends(nodes):
    claims = {"sub": "alice", "iss": ISSUER, "aud": "tides", "exp": int(time.time()) + 600}
    path = nodes.directory / "token"
    settings = by_password(nodes, "OAUTHBEARER")
    settings["sasl.oauthbearer.token.endpoint.url"] = f"file://{path}"
    path.write_text(jwt.encode(claims, TOKEN_KEY, algorithm="ES256"))
    listed = tidelog(nodes, settings, "topic", "list")
    assert listed.returncode == 0, listed.stderr
    path.write_text(jwt.encode({**claims, "exp": 1}, TOKEN_KEY, algorithm="ES256"))
    refused = tidelog(nodes, settings, "topic", "list")
    assert "SASL_AUTHENTICATION_FAILED (58)" in refused.stderr
    assert "expired" in refused.stderr


def test_a_stopped_node_comes_back_and_catches_up(nodes):
    assert nodes.stop(3) == 0
    settings = by_password(nodes)
    producer = Producer({**settings, "acks": "all"})
    for _ in range(10):
        producer.produce("tides", b"y", partition=1)
    assert producer.flush(GUARD_S) == 0
    nodes.start(3)
    nodes.wait_ready(3)
    admin = AdminClient(settings)

    def everybody_is_in_sync():
        partitions = admin.list_topics("tides", timeout=GUARD_S).topics["tides"].partitions
        return {len(each.isrs) for each in partitions.values()} == {BROKERS}

    until(everybody_is_in_sync)


def shown_by(nodes: SecureNodes, node: int) -> str:
    """The subject of the certificate that a node shows."""
    port = int(nodes.for_passwords.split(",")[node - 1].split(":")[1])
    pem = ssl.get_server_certificate(("localhost", port), ca_certs=str(nodes.ca_file))
    return read_certificate(ssl.PEM_cert_to_DER_cert(pem)).subject


def renew(nodes: SecureNodes, node: int, name: str, days: int) -> None:
    leaf = nodes.node_leaf(name, days)
    leaf.write(nodes.directory / "next.pem").rename(nodes.key_file(node))


def findings_of(nodes: SecureNodes, node: int) -> dict[tuple[str, str], str]:
    health = json.loads(nodes.get(node, "/healthz")[1])
    return {(each["kind"], each["subject"]): each["text"] for each in health["findings"]}


def test_certificates_are_renewed_while_connections_stay_open(nodes):
    assert shown_by(nodes, 1) == "CN=node1,OU=nodes"
    assert not [kind for kind, _ in findings_of(nodes, 1) if kind.startswith("certificate")]
    renew(nodes, 1, "renewed", days=10)
    until(lambda: shown_by(nodes, 1) == "CN=renewed,OU=nodes")
    until(lambda: ("certificate-expires", "CLIENTS") in findings_of(nodes, 1))
    assert "in 9 days" in findings_of(nodes, 1)["certificate-expires", "CLIENTS"]
    nodes.key_file(1).write_text("half of a fi")
    until(lambda: ("certificate-unreadable", "CLIENTS") in findings_of(nodes, 1))
    assert shown_by(nodes, 1) == "CN=renewed,OU=nodes"
    renew(nodes, 1, "sound", days=100)
    until(lambda: shown_by(nodes, 1) == "CN=sound,OU=nodes")
    until(lambda: not [kind for kind, _ in findings_of(nodes, 1) if "certificate" in kind])
    assert 'tidelog_certificate_end_seconds{certificate="CLIENTS"}' in nodes.get(1, "/metrics")[1]


def test_a_certificate_is_moved_by_altering_the_configuration(nodes):
    """As Kafka's tools do it, for one listener of one broker."""
    moved = nodes.node_leaf("moved").write(nodes.directory / "moved.pem")
    admin = AdminClient(by_password(nodes))
    entry = ConfigEntry(
        "listener.name.clients.ssl.keystore.location",
        str(moved),
        incremental_operation=AlterConfigOpType.SET,
    )
    resource = ConfigResource(ResourceType.BROKER, "2", incremental_configs=[entry])
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(GUARD_S)
    until(lambda: shown_by(nodes, 2) == "CN=moved,OU=nodes")
    assert shown_by(nodes, 3) == "CN=node3,OU=nodes"
