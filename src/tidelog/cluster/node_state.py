"""What a node says of itself over HTTP, if it has that port."""

import http.client
import json
from typing import Any

from tidelog.cluster.node_http import NodeHttp
from tidelog.host.tls import TlsError

ANSWER_WITHIN_SECONDS = 2


def read_state(node: NodeHttp) -> dict[str, Any] | None:
    """The document of `/state`; None if nobody answers with one."""
    try:
        connection = node.connect(ANSWER_WITHIN_SECONDS)
    except (OSError, TlsError):
        return None
    try:
        connection.request("GET", "/state", headers=node.login())
        answer = connection.getresponse()
        document = json.loads(answer.read()) if answer.status == 200 else None
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return document if isinstance(document, dict) else None


def partition_in(document: dict[str, Any] | None, topic: str, partition: int) -> dict[str, Any]:
    """What a node says of one partition; empty if it says nothing."""
    for each in (document or {}).get("partitions", ()):
        if isinstance(each, dict) and (each.get("topic"), each.get("partition")) == (
            topic,
            partition,
        ):
            return each
    return {}


def read_events(node: NodeHttp) -> list[dict[str, Any]]:
    """What a node still remembers of what happened, oldest first; empty if nobody answers."""
    found: list[dict[str, Any]] = []
    try:
        connection = node.connect(ANSWER_WITHIN_SECONDS)
    except (OSError, TlsError):
        return found
    try:
        connection.request("GET", "/events?since=0", headers=node.login())
        answer = connection.getresponse()
        last_number = None
        while answer.status == 200 and (last_number is None or last_number > 0):
            line = answer.readline()
            if not line:
                break
            if not line.startswith(b"data: "):
                continue
            told = json.loads(line.removeprefix(b"data: "))
            if last_number is None:
                last_number = told["number"]  # the first frame says how far there is to go
            elif "event" in told:
                found.append(told)
                if told["number"] >= last_number:
                    break
    except (OSError, ValueError, KeyError, http.client.HTTPException):
        return found
    finally:
        connection.close()
    return found
