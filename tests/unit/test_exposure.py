"""A node that strangers can reach says so, unless somebody or something keeps them out."""

import pytest

from tidelog.config.exposure import exposed_listeners, warning_of
from tidelog.config.layers import Inputs
from tidelog.config.node_config import load_node_config
from tidelog.config.properties import parse_properties

HEAD = """\
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
controller.quorum.voters=1@tide-1:9093
log.dirs=/var/lib/tidelog
"""
OPEN = "listeners=PLAINTEXT://:9092,CONTROLLER://127.0.0.1:9093\n"
AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"


def exposed(text: str) -> list[str]:
    loaded = load_node_config(Inputs(parse_properties(HEAD + text, "server.properties")))
    assert loaded.config is not None, loaded.problems
    return [each.name for each in exposed_listeners(loaded.config)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (OPEN, ["PLAINTEXT"]),
        ("listeners=PLAINTEXT://:9092,CONTROLLER://:9093\n", ["PLAINTEXT", "CONTROLLER"]),
        ("listeners=PLAINTEXT://tide-1:9092,CONTROLLER://localhost:9093\n", ["PLAINTEXT"]),
        ("listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://[::1]:9093\n", []),
        (OPEN + "tidelog.insecure=accepted\n", []),
        (OPEN + AUTHORIZER, []),
        (OPEN + AUTHORIZER + "allow.everyone.if.no.acl.found=true\n", ["PLAINTEXT"]),
    ],
    ids=[
        "every interface",
        "controllers too",
        "a name of the machine",
        "loopback",
        "accepted",
        "access rules decide",
        "access rules that begin open",
    ],
)
def test_what_strangers_reach_is_named(text, names):
    assert exposed(text) == names


@pytest.mark.parametrize(
    ("auth", "names"), [("required", []), ("requested", ["NODES"]), ("none", ["NODES"])]
)
def test_tls_keeps_strangers_out_only_where_they_must_show_a_certificate(auth, names):
    text = (
        "listeners=NODES://:9092,CONTROLLER://127.0.0.1:9093\n"
        "listener.security.protocol.map=NODES:SSL,CONTROLLER:PLAINTEXT\n"
        "inter.broker.listener.name=NODES\n"
        "ssl.keystore.type=PEM\nssl.keystore.location=/etc/tidelog/node.pem\n"
        "ssl.truststore.type=PEM\nssl.truststore.location=/etc/tidelog/ca.pem\n"
        f"ssl.client.auth={auth}\n"
    )
    assert exposed(text) == names


def test_the_warning_says_where_and_what_to_do():
    loaded = load_node_config(Inputs(parse_properties(HEAD + OPEN, "server.properties")))
    (listener,) = exposed_listeners(loaded.config)
    assert warning_of(listener) == (
        "ANYBODY who reaches 0.0.0.0:9092 can read, change and delete everything: listener "
        "PLAINTEXT asks nobody who he is. `tidelog secure init` makes what is needed; "
        "tidelog.insecure=accepted silences this line."
    )
