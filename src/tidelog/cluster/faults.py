"""Faults of the wire between nodes, made by the nodes themselves: asked for over HTTP."""

import http.client
import json
from collections.abc import Mapping, Sequence

from tidelog.client.security import BadProperties
from tidelog.cluster.node_http import NodeHttp, http_of
from tidelog.cluster.nodes import LocalNodes
from tidelog.host.tls import TlsError

ANSWER_WITHIN_SECONDS = 3
PATH = "/chaos"
Login = Mapping[str, str] | None
"""Properties of a client; None: the administrator of the cluster."""


class ControlFailed(Exception):  # noqa: N818 - it names what is so
    """A node did not take what it was told."""

    def __init__(self, node_id: int, reason: str) -> None:
        super().__init__(f"node {node_id}: {reason}")
        self.node_id = node_id


def cut(nodes: LocalNodes, groups: Sequence[Sequence[int]], login: Login = None) -> None:
    """Nobody hears anybody of another group. Nodes that are in no group hear all."""
    for group in groups:
        others = sorted(each for other in groups if other is not group for each in other)
        for node_id in group:
            node = nodes.node(node_id)
            node.blocked = sorted({*node.blocked, *others})
    tell(nodes, [each for group in groups for each in group], login)


def slow(nodes: LocalNodes, node_id: int, latency_ms: int, login: Login = None) -> None:
    """Everything to and from a node takes longer; 0 takes it back."""
    for other in nodes.state.nodes.values():
        if other.id == node_id:
            continue
        for one, far in ((other, node_id), (nodes.node(node_id), other.id)):
            one.latency_ms.pop(str(far), None)
            if latency_ms:
                one.latency_ms[str(far)] = latency_ms
    tell(nodes, nodes.node_ids, login)


def fill_disk(nodes: LocalNodes, node_id: int, login: Login = None, *, full: bool = True) -> None:
    """The disks of a node look full to it, or no longer do."""
    nodes.node(node_id).full_disks = full
    tell(nodes, [node_id], login)


def heal(nodes: LocalNodes, login: Login = None) -> None:
    """Everybody hears everybody, at once."""
    for node in nodes.state.nodes.values():
        node.blocked.clear()
        node.latency_ms.clear()
    tell(nodes, nodes.node_ids, login)


def tell(nodes: LocalNodes, node_ids: Sequence[int], login: Login = None) -> None:
    """What the state says of these nodes; those that do not run are told when they start."""
    nodes.save()
    for node_id in node_ids:
        node = nodes.node(node_id)
        if node.state != "running":
            continue
        document = {
            "blocked": node.blocked,
            "latency_ms": node.latency_ms,
            "full_disks": node.full_disks,
        }
        _post(node_id, http_of(nodes, node_id, login), document)


def _post(node_id: int, node: NodeHttp, document: Mapping[str, object]) -> None:
    try:
        connection = node.connect(ANSWER_WITHIN_SECONDS)
        headers = {"Content-Type": "application/json", **node.login()}
    except (OSError, TlsError, BadProperties) as reason:
        raise ControlFailed(node_id, f"nobody can log in with these properties: {reason}") from None
    try:
        connection.request("POST", PATH, json.dumps(document), headers)
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", "replace").strip()
    except (OSError, http.client.HTTPException) as reason:
        raise ControlFailed(
            node_id, f"its control port {node.port} does not answer: {reason}"
        ) from None
    finally:
        connection.close()
    if answer.status >= 300:
        raise ControlFailed(node_id, f"it answered {answer.status}: {text[:200]}")
