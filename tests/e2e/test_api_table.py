"""Every API that a real node offers, asked without a login, without a rule, and with its rules.

What is offered is what ApiVersions says, so an API that is added needs a row in the table.
"""

import ssl
from collections.abc import Iterable, Iterator

import pytest

from support.raw_tls import HungUp, RawTls
from support.required_access import (
    AUTHORIZATION,
    BROKER_ROWS,
    CONTROLLER_ROWS,
    LISTINGS,
    Row,
    codes,
    rule,
)
from support.secure_nodes import PLAIN_MODULE, SecureNodes
from tidelog.broker.handlers import forwarded
from tidelog.rpc.authorization.table import FREE
from tidelog.wire.protocol import request_class
from tidelog.wire.protocol.schemas.api_versions_request import ApiVersionsRequest
from tidelog.wire.protocol.schemas.create_acls_request import AclCreation, CreateAclsRequest

FOR_CLIENTS = [*BROKER_ROWS, *(row for row in CONTROLLER_ROWS if row.key in forwarded.ROWS)]
USERS = {f"row{number}": row for number, row in enumerate(FOR_CLIENTS)}
"""A user for each row, who has the rules of that row alone."""
SASL_HANDSHAKE, API_VERSIONS = 17, 18
LAST_BY_NAME = {0: 12, 1: 12, 8: 9, 9: 9}
"""Later versions name topics by ids, of which there are none yet."""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNodes]:
    users = " ".join(f'user_{name}="sand"' for name in ("alice", "nobody", *USERS))
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:alice;User:broker;User:CN=node1,OU=nodes",
        "listener.name.clients.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {users};",
        "connection.failed.authentication.delay.ms": "0",
    }
    with SecureNodes(tmp_path_factory.mktemp("table"), config=config) as nodes:
        yield nodes


def to_clients(nodes: SecureNodes) -> RawTls:
    return RawTls(nodes.port(1, "CLIENTS"), nodes.ca_file)


def to_controller(nodes: SecureNodes, name: str) -> RawTls:
    leaf = nodes.authority.leaf({"OU": "people", "CN": name}, hosts=())
    file = nodes.leaf_file(name, leaf)
    return RawTls(nodes.port(1, "CONTROLLER"), nodes.ca_file, file)


def offered(connection: RawTls) -> dict[int, range]:
    answer = connection.ask(ApiVersionsRequest(), 0)
    return {each.api_key: range(each.min_version, each.max_version + 1) for each in answer.api_keys}


def by_key(rows: Iterable[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for row in rows:
        found.setdefault(row.key, []).append(row)
    return found


def version_of(row: Row, versions: range) -> int:
    """The newest that the row, the node and a topic without an id allow."""
    last = min(row.versions[-1], versions[-1])
    by_name = LAST_BY_NAME.get(row.key, last)
    return min(last, by_name) if by_name in row.versions else last


def test_every_offered_api_has_a_row(nodes: SecureNodes) -> None:
    with to_clients(nodes) as connection:
        keys = offered(connection).keys()
    assert keys - FREE == {row.key for row in (*FOR_CLIENTS, *LISTINGS)}
    with to_controller(nodes, "somebody") as connection:
        keys = offered(connection).keys()
    assert keys - FREE <= {row.key for row in CONTROLLER_ROWS}


def test_without_a_login_only_a_login_is_answered(nodes: SecureNodes) -> None:
    """Kafka hangs up too: an error would be an answer to somebody it does not know."""
    rows = by_key(FOR_CLIENTS)
    with to_clients(nodes) as connection:
        apis = offered(connection)
    answered = set()
    for key, versions in apis.items():
        makers = [row.request for row in rows.get(key, ())] or [request_class(key)]
        with to_clients(nodes) as connection:
            try:
                connection.ask(makers[0](), versions[-1])
            except HungUp:
                continue
        answered.add(key)
    assert answered == {SASL_HANDSHAKE, API_VERSIONS}


@pytest.mark.parametrize("listener", ["CERTS", "CONTROLLER"])
def test_without_a_certificate_nothing_is_answered(nodes: SecureNodes, listener: str) -> None:
    """The end of the handshake: TLS 1.3 tells the client with the first bytes that it reads."""
    with (
        RawTls(nodes.port(1, listener), nodes.ca_file) as connection,
        pytest.raises(ssl.SSLError, match="certificate required"),
    ):
        connection.ask(ApiVersionsRequest(), 0)


def refused_otherwise(connection: RawTls, rows: Iterable[Row]) -> list[tuple[Row, set[int]]]:
    """The rows that are answered with other codes than theirs."""
    apis = offered(connection)
    told = []
    for row in rows:
        answer = connection.ask(row.request(), version_of(row, apis[row.key]))
        if codes(answer) != {row.error}:
            told.append((row, codes(answer)))
    return told


def test_without_a_rule_every_api_gives_the_error_of_its_row(nodes: SecureNodes) -> None:
    with to_clients(nodes) as connection:
        connection.log_in("nobody", "sand")
        assert refused_otherwise(connection, FOR_CLIENTS) == []
        for listing in LISTINGS:
            answer = connection.ask(request_class(listing.key)(), listing.versions[-1])
            assert codes(answer) == set()
            assert getattr(answer, listing.seen) in ([], -(1 << 31))


def test_without_a_rule_a_controller_serves_nothing(nodes: SecureNodes) -> None:
    with to_controller(nodes, "somebody") as connection:
        served = offered(connection)
        rows = [row for row in CONTROLLER_ROWS if row.key in served]
        assert refused_otherwise(connection, rows) == []


def test_with_its_rules_an_api_is_not_refused(nodes: SecureNodes) -> None:
    """What else is wrong with these requests is told, so they have reached whoever serves them."""
    acls = [rule(*needed, f"User:{name}") for name, row in USERS.items() for needed in row.rules]
    creations = [
        AclCreation(
            resource_type=acl.resource_type,
            resource_name=acl.resource_name,
            resource_pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        for acl in acls
    ]
    with to_clients(nodes) as connection:
        connection.log_in("alice", "sand")
        apis = offered(connection)
        answer = connection.ask(CreateAclsRequest(creations=creations), 3)
        assert codes(answer) == set()
    refused = []
    for name, row in USERS.items():
        with to_clients(nodes) as connection:
            connection.log_in(name, "sand")
            answer = connection.ask(row.request(), version_of(row, apis[row.key]))
            if codes(answer) & AUTHORIZATION:
                refused.append((row, codes(answer)))
    assert refused == []
