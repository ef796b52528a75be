"""Asking a node of this machine over HTTP: with TLS and a login where the cluster is secured."""

import http.client
from base64 import b64encode
from collections.abc import Mapping
from typing import NamedTuple

from tidelog.client.security import read_properties
from tidelog.cluster.free_ports import HOST
from tidelog.cluster.layout import admin_properties
from tidelog.cluster.nodes import ClusterNodes
from tidelog.core.security.protocols import LoginSettings
from tidelog.host.tls import make_context, read_text


class NodeHttp(NamedTuple):
    """Where a node listens, and the properties of the client who asks it."""

    port: int
    properties: Mapping[str, str] = {}

    def __repr__(self) -> str:
        """Passwords never reach a log."""
        return f"NodeHttp({self.port})"

    def connect(self, timeout_s: float) -> http.client.HTTPConnection:
        """OSError or TlsError if it cannot be done."""
        tls = read_properties(self.properties).tls
        if tls is None:
            return http.client.HTTPConnection(HOST, self.port, timeout=timeout_s)
        context = make_context(tls, server_side=False)
        return http.client.HTTPSConnection(HOST, self.port, timeout=timeout_s, context=context)

    def login(self) -> dict[str, str]:
        """The header that says who asks. Nobody is told a password without TLS."""
        security = read_properties(self.properties)
        if security.tls is None or security.login is None:
            return {}
        return {"Authorization": authorization(security.login)}


def http_of(
    nodes: ClusterNodes, node_id: int, properties: Mapping[str, str] | None = None
) -> NodeHttp:
    """As the administrator whose login lies beside the cluster, unless properties say other."""
    admin = admin_properties(nodes.directory, nodes.state)
    return NodeHttp(nodes.node(node_id).http_port, {**admin, **(properties or {})})


def authorization(login: LoginSettings) -> str:
    if login.token_file is not None:
        return f"Bearer {read_text(login.token_file)}"
    return "Basic " + b64encode(f"{login.user}:{login.password}".encode()).decode("ascii")
