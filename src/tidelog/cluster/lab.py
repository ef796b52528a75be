"""A cluster to step through: its settings, and asking its nodes what waits at their gates."""

import http.client
import json
from typing import Any

from tidelog.cluster.faults import ControlFailed
from tidelog.cluster.node_http import http_of
from tidelog.cluster.nodes import LocalNodes

Document = dict[str, Any]
ANSWER_WITHIN_SECONDS = 30
AN_HOUR_MS = "3600000"

LAB_SETTINGS = {
    "tidelog.lab.enable": "true",
    # Whoever thinks about the next step is not slow: nobody leaves the ISR for it.
    "replica.lag.time.max.ms": AN_HOUR_MS,
    # A fetch that is released is answered at once, and each of them says all there is to say.
    "replica.fetch.wait.max.ms": "1",
    "max.incremental.fetch.session.cache.slots": "0",
    # Stories say who leads, and when a record counts as written.
    "auto.leader.rebalance.enable": "false",
    "ack.durability": "page-cache",
    "broker.session.timeout.ms": "9000",
}


def ask_lab(
    nodes: LocalNodes, node_id: int, method: str = "GET", order: Document | None = None
) -> Document:
    """`/lab` of a node; ControlFailed if it cannot be asked."""
    return _ask(nodes, node_id, method, "/lab", order)


def ask_partition(nodes: LocalNodes, node_id: int, topic: str) -> Document:
    """What a node says of its replica of the topic's first partition; ControlFailed if it has
    none, or cannot be asked."""
    return _ask(nodes, node_id, "GET", f"/partition?topic={topic}&partition=0", None)


def _ask(
    nodes: LocalNodes, node_id: int, method: str, path: str, order: Document | None
) -> Document:
    node = http_of(nodes, node_id)
    connection = node.connect(ANSWER_WITHIN_SECONDS)
    headers = {"Content-Type": "application/json", **node.login()}
    try:
        connection.request(method, path, None if order is None else json.dumps(order), headers)
        answer = connection.getresponse()
        body = answer.read()
        document: Document = json.loads(body)
    except (OSError, ValueError, http.client.HTTPException) as reason:
        raise ControlFailed(
            node_id, f"its HTTP port {node.port} does not answer: {reason}"
        ) from None
    finally:
        connection.close()
    if answer.status >= 300:
        raise ControlFailed(node_id, str(document.get("error", answer.status)))
    return document
