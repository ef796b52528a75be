"""What may be posted to `/chaos`: which faults a node is to have, or which requests are to fail."""

import json
from http import HTTPStatus
from typing import Any, NamedTuple

from tidelog.observe.http_server import BadRequest

LATENCY_MAX_MS = 60_000
TIMES_MAX = 1_000_000
FAULTS = frozenset(("blocked", "latency_ms", "full_disks"))
BODY_HAS_TO_BE = (
    'the body has to be like {"blocked": [2], "latency_ms": {"3": 80}, "full_disks": false}'
)


class WantedFaults(NamedTuple):
    blocked: frozenset[int]
    latency_ms: dict[int, int]
    full_disks: bool


class WantedAnswers(NamedTuple):
    """So many requests of an API, perhaps for one topic, get an error."""

    api: str
    error: str
    times: int
    topic: str | None


def parse_body(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "the body is not JSON") from None
    if not isinstance(document, dict):
        raise BadRequest(HTTPStatus.BAD_REQUEST, BODY_HAS_TO_BE)
    return document


def parse_answers(document: dict[str, Any]) -> WantedAnswers | None:
    """`{"answer_next": {"api": "Produce", "error": "NOT_ENOUGH_REPLICAS", "times": 2}}`, perhaps
    with a `topic`; `{"answer_next": null}` takes everything back."""
    script = document["answer_next"]
    if script is None and len(document) == 1:
        return None
    if len(document) > 1 or not isinstance(script, dict):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "answer_next has to be an object, and alone")
    times, topic = script.get("times", 1), script.get("topic")
    if type(times) is not int or not 1 <= times <= TIMES_MAX:
        raise BadRequest(HTTPStatus.BAD_REQUEST, f"times has to be from 1 to {TIMES_MAX}")
    if topic is not None and not isinstance(topic, str):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "topic has to be the name of a topic")
    if script.keys() - {"api", "error", "times", "topic"}:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "answer_next takes api, error, times and topic")
    return WantedAnswers(str(script.get("api")), str(script.get("error")), times, topic)


def parse_faults(document: dict[str, Any]) -> WantedFaults:
    """`{"blocked": [2, 3], "latency_ms": {"2": 80}, "full_disks": true}`; what is left out is not
    broken."""
    if document.keys() - FAULTS:
        raise BadRequest(HTTPStatus.BAD_REQUEST, BODY_HAS_TO_BE)
    blocked, latency = document.get("blocked", []), document.get("latency_ms", {})
    if not isinstance(blocked, list) or not all(type(each) is int for each in blocked):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "blocked has to be a list of node ids")
    if not isinstance(latency, dict) or not all(map(_is_latency, latency.items())):
        reason = f"latency_ms has to give node ids whole numbers from 0 to {LATENCY_MAX_MS}"
        raise BadRequest(HTTPStatus.BAD_REQUEST, reason)
    full = document.get("full_disks", False)
    if not isinstance(full, bool):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "full_disks has to be true or false")
    delays = {int(node): value for node, value in latency.items() if value}
    return WantedFaults(frozenset(blocked), delays, full)


def _is_latency(item: tuple[str, object]) -> bool:
    node, value = item
    named = node.isascii() and node.isdigit() and len(node) < 10
    return named and type(value) is int and 0 <= value <= LATENCY_MAX_MS
