"""Listeners with security: what the settings mean, and what is refused before a node starts."""

import pytest

from tidelog.config.layers import Inputs
from tidelog.config.node_config import load_node_config
from tidelog.config.properties import parse_properties
from tidelog.core.security.principal_rules import user_name
from tidelog.core.security.protocols import LoginSettings, PeerSecurity
from tidelog.core.security.tls_settings import ClientAuth

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"

SECURE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "OUT://localhost:1,IN://localhost:2,CONTROLLER://localhost:3",
    "listener.security.protocol.map": "OUT:SASL_SSL,IN:SSL,CONTROLLER:SASL_SSL",
    "inter.broker.listener.name": "IN",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:3",
    "log.dirs": "/data",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": "/node.pem",
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": "/ca.pem",
    "listener.name.in.ssl.client.auth": "required",
    "listener.name.in.ssl.keystore.location": "/inside.pem",
    "listener.name.in.ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/U",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": (
        f'{PLAIN} username="node" password="a\\\\"b" user_node="a\\\\"b";'
    ),
    "connections.max.reauth.ms": "60000",
}


def load(**changed):
    """`__` in a name stands for a dot; None leaves the line out."""
    given = {**SECURE, **{name.replace("__", "."): value for name, value in changed.items()}}
    lines = [f"{name}={value}" for name, value in given.items() if value is not None]
    return load_node_config(Inputs(parse_properties("\n".join(lines), "server.properties")))


def test_what_is_said_for_a_listener_counts_more_than_what_is_said_for_all():
    loaded = load()
    assert loaded.problems == ()
    security = loaded.config.security
    outside, inside = security.listeners["OUT"], security.listeners["IN"]
    assert (outside.protocol, outside.tls.key_file) == ("SASL_SSL", "/node.pem")
    assert (inside.protocol, inside.tls.key_file) == ("SSL", "/inside.pem")
    assert outside.tls.client_auth is ClientAuth.NONE
    assert inside.tls.client_auth is ClientAuth.REQUIRED
    assert outside.sasl.mechanisms == ("SCRAM-SHA-512",)
    assert outside.sasl.reauth_max_ms == 60_000
    assert user_name(inside.rules, "CN=alice,O=Tides") == "ALICE"
    controller = security.listeners["CONTROLLER"].sasl
    assert controller.mechanisms == ("PLAIN",)
    assert dict(controller.plain_users) == {"node": 'a"b'}


def test_the_ways_to_others_have_what_their_listeners_want():
    security = load().config.security
    assert security.to_brokers.login is None
    assert security.to_brokers.tls.key_file == "/inside.pem"
    assert security.to_brokers.tls.check_host
    assert security.to_controllers.login == LoginSettings("PLAIN", "node", 'a"b')
    assert security.to_controllers.tls.trust_file == "/ca.pem"


def test_a_broker_alone_knows_how_to_reach_controllers():
    loaded = load(
        process__roles="broker",
        node__id="7",
        listeners="OUT://localhost:1,IN://localhost:2",
    )
    assert loaded.problems == ()
    security = loaded.config.security
    assert set(security.listeners) == {"OUT", "IN"}
    assert security.to_controllers.login.mechanism == "PLAIN"


def test_plain_text_needs_nothing():
    loaded = load(
        listener__security__protocol__map="OUT:PLAINTEXT,IN:PLAINTEXT,CONTROLLER:PLAINTEXT"
    )
    security = loaded.config.security
    assert security.is_plain
    assert security.to_brokers == security.to_controllers == PeerSecurity()


@pytest.mark.parametrize(
    ("changed", "name", "why"),
    [
        ({"ssl__keystore__type": "JKS"}, "ssl.keystore.type", "only PEM"),
        ({"ssl__keystore__type": None}, "ssl.keystore.type", "only PEM"),
        ({"ssl__truststore__type": "PKCS12"}, "ssl.truststore.type", "only PEM"),
        (
            {
                "ssl__keystore__location": None,
                "listener.name.in.ssl.keystore.location": None,
            },
            "ssl.keystore.location",
            "needs a key",
        ),
        ({"ssl__keystore__key": "PEM"}, "ssl.keystore.certificate.chain", "go together"),
        ({"sasl__enabled__mechanisms": "GSSAPI"}, "sasl.enabled.mechanisms", "GSSAPI"),
        ({"sasl__enabled__mechanisms": None}, "sasl.enabled.mechanisms", "GSSAPI"),
        (
            {"listener.name.controller.sasl.enabled.mechanisms": "SCRAM-SHA-256"},
            "listener.name.controller.sasl.enabled.mechanisms",
            "agree on first",
        ),
        (
            {"listener.name.controller.plain.sasl.jaas.config": None},
            "listener.name.controller.plain.sasl.jaas.config",
            "users and passwords",
        ),
        (
            {"listener.name.controller.plain.sasl.jaas.config": f"{PLAIN} user_a"},
            "listener.name.controller.plain.sasl.jaas.config",
            "semicolon",
        ),
        (
            {"listener.name.controller.plain.sasl.jaas.config": f'{PLAIN} user_a="b";'},
            "listener.name.controller.plain.sasl.jaas.config",
            "as whom",
        ),
        (
            {"sasl__mechanism__controller__protocol": "GSSAPI"},
            "sasl.mechanism.controller.protocol",
            "GSSAPI",
        ),
        (
            {"sasl__enabled__mechanisms": "OAUTHBEARER"},
            "sasl.oauthbearer.jwks.endpoint.url",
            "file://",
        ),
        (
            {"listener.name.in.ssl.principal.mapping.rules": "RULE:(/x/"},
            "listener.name.in.ssl.principal.mapping.rules",
            "no regular expression",
        ),
        (
            {"listener.name.in.ssl.principal.mapping.rules": "RULE:a/$1/"},
            "listener.name.in.ssl.principal.mapping.rules",
            "a group",
        ),
        ({"ssl__client__auth": "maybe"}, "ssl.client.auth", "one of none"),
    ],
)
def test_what_would_be_less_safe_than_it_looks_is_refused(changed, name, why):
    loaded = load(**changed)
    assert loaded.config is None
    told = [str(problem) for problem in loaded.problems]
    assert [text for text in told if name in text and why in text], told


def test_a_java_key_store_is_refused_with_the_command_that_converts_it():
    (problem, *_) = load(ssl__keystore__type="JKS").problems
    assert "openssl pkcs12 -in STORE.p12 -nodes -out STORE.pem" in problem.advice
    assert "keytool -importkeystore" in problem.advice


def test_no_password_is_in_a_complaint():
    text = f'{PLAIN} username="node" password="geheim" user_x="geheim"'
    loaded = load(**{"listener.name.controller.plain.sasl.jaas.config": text})
    assert loaded.problems
    assert "geheim" not in "".join(map(str, loaded.problems))


def test_a_password_in_plain_text_is_worth_a_warning_beyond_this_machine():
    changed = {
        "listeners": "OUT://0.0.0.0:1,IN://localhost:2,CONTROLLER://localhost:3",
        "advertised.listeners": "OUT://example.org:1,IN://localhost:2",
        "listener.security.protocol.map": "OUT:SASL_PLAINTEXT,IN:SSL,CONTROLLER:SASL_SSL",
        "listener.name.out.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.out.plain.sasl.jaas.config": f'{PLAIN} user_a="b";',
    }
    loaded = load(**changed)
    assert loaded.problems == ()
    assert [each for each in loaded.warnings if "as plain text" in each.why]


@pytest.mark.parametrize(
    ("address", "key_file"),
    [
        ("https://127.0.0.1:9644", "/node.pem"),
        ("127.0.0.1:9644", None),
        ("http://0.0.0.0:9644", None),
        ("0.0.0.0:9644", "/node.pem"),
        ("tide-1.example.org:9644", "/node.pem"),
    ],
)
def test_http_has_tls_where_it_is_asked_for_or_others_can_reach_it(address, key_file):
    loaded = load(tidelog__http__listener=address)
    assert loaded.problems == ()
    tls = loaded.config.security.http.tls
    assert (None if tls is None else tls.key_file) == key_file
    warned = [each for each in loaded.warnings if each.name == "tidelog.http.listener"]
    assert bool(warned) == address.startswith("http://"), "passwords would be seen by others"


def test_http_has_a_key_of_its_own_if_it_is_told_so():
    own = {"listener.name.http.ssl.keystore.location": "/http.pem"}
    loaded = load(tidelog__http__listener="https://localhost:1", **own)
    assert loaded.config.security.http.tls.key_file == "/http.pem"


def test_http_with_tls_and_without_a_key_is_refused():
    without = {"ssl.keystore.location": None, "listener.security.protocol.map": "OUT:PLAINTEXT"}
    loaded = load(tidelog__http__listener="https://localhost:1", **without)
    assert any("listener HTTP: TLS needs a key" in each.why for each in loaded.problems)
