"""What a node says of itself over HTTP, if it has that port."""

import http.client
import json
from typing import Any

ANSWER_WITHIN_SECONDS = 2


def read_state(port: int) -> dict[str, Any] | None:
    """The document of `/state`; None if nobody answers with one."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_WITHIN_SECONDS)
    try:
        connection.request("GET", "/state")
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
