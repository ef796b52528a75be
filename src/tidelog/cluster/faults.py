"""Faults of the wire between nodes, made by the nodes themselves: asked for over HTTP."""

import http.client
import json
from collections.abc import Sequence

from tidelog.cluster.nodes import LocalNodes

ANSWER_WITHIN_SECONDS = 3
PATH = "/chaos"


class ControlFailed(Exception):  # noqa: N818 - it names what is so
    """A node did not take what it was told."""

    def __init__(self, node_id: int, reason: str) -> None:
        super().__init__(f"node {node_id}: {reason}")
        self.node_id = node_id


def cut(nodes: LocalNodes, groups: Sequence[Sequence[int]]) -> None:
    """Nobody hears anybody of another group. Nodes that are in no group hear all."""
    for group in groups:
        others = sorted(each for other in groups if other is not group for each in other)
        for node_id in group:
            node = nodes.node(node_id)
            node.blocked = sorted({*node.blocked, *others})
    tell(nodes, [each for group in groups for each in group])


def slow(nodes: LocalNodes, node_id: int, latency_ms: int) -> None:
    """Everything to and from a node takes longer; 0 takes it back."""
    for other in nodes.state.nodes.values():
        if other.id == node_id:
            continue
        for one, far in ((other, node_id), (nodes.node(node_id), other.id)):
            one.latency_ms.pop(str(far), None)
            if latency_ms:
                one.latency_ms[str(far)] = latency_ms
    tell(nodes, nodes.node_ids)


def heal(nodes: LocalNodes) -> None:
    """Everybody hears everybody, at once."""
    for node in nodes.state.nodes.values():
        node.blocked.clear()
        node.latency_ms.clear()
    tell(nodes, nodes.node_ids)


def tell(nodes: LocalNodes, node_ids: Sequence[int]) -> None:
    """What the state says of these nodes; those that do not run are told when they start."""
    nodes.save()
    for node_id in node_ids:
        node = nodes.node(node_id)
        if node.state != "running":
            continue
        _post(node_id, node.http_port, {"blocked": node.blocked, "latency_ms": node.latency_ms})


def _post(node_id: int, port: int, document: dict[str, object]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_WITHIN_SECONDS)
    try:
        body = json.dumps(document)
        connection.request("POST", PATH, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", "replace").strip()
    except (OSError, http.client.HTTPException) as reason:
        raise ControlFailed(node_id, f"its control port {port} does not answer: {reason}") from None
    finally:
        connection.close()
    if answer.status >= 300:
        raise ControlFailed(node_id, f"it answered {answer.status}: {text[:200]}")
