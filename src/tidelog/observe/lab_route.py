"""`/lab`: what waits at the lab's gate of a broker, and letting it pass."""

import json
from http import HTTPStatus
from typing import Any, Protocol

from tidelog.observe.http_server import BadRequest, Request, Response, json_response

LAB = "/lab"
MOST_AT_ONCE = 100
EXAMPLE = '{"release": {"from": 2, "to": 1, "count": 1}}'


class Lab(Protocol):
    """`node.lab_gate.LabGate`, through the node."""

    def describe(self) -> dict[str, object]: ...
    def close(self) -> None: ...
    def open(self) -> None: ...
    def release(
        self,
        target: int,
        *,
        count: int,
        number: int | None,
        max_bytes: int | None,
        keep_answer: bool,
    ) -> int: ...
    def end_answers(self, target: int, *, arrive: bool) -> int: ...


class LabRoute:
    """None: this node is not in a lab."""

    __slots__ = ("_lab", "_node_id")

    def __init__(self, lab: Lab | None, node_id: int) -> None:
        self._lab = lab
        self._node_id = node_id

    def get(self, _: Request) -> Response:
        return json_response(self._known().describe())

    def delete(self, _: Request) -> Response:
        lab = self._known()
        lab.open()
        return json_response(lab.describe())

    def post(self, request: Request) -> Response:
        lab = self._known()
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            reason = "Content-Type has to be application/json"
            raise BadRequest(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, reason)
        kind, order = _order(request.body)
        passed = 0
        if kind == "close":
            lab.close()
        elif kind == "release":
            passed = self._release(lab, order)
        else:
            passed = lab.end_answers(_number(order, "to"), arrive=_flag(order, "arrives"))
        return json_response({**lab.describe(), "released": passed})

    def _release(self, lab: Lab, order: dict[str, Any]) -> int:
        if _number(order, "from", self._node_id) != self._node_id:
            reason = f"this is node {self._node_id}: it holds its own fetches, and no others"
            raise BadRequest(HTTPStatus.BAD_REQUEST, reason)
        return lab.release(
            _number(order, "to"),
            count=_number(order, "count", 1, most=MOST_AT_ONCE),
            number=_number(order, "number") if "number" in order else None,
            max_bytes=_number(order, "max_bytes") if "max_bytes" in order else None,
            keep_answer=_flag(order, "keep_answer"),
        )

    def _known(self) -> Lab:
        if self._lab is None:
            reason = "start the node with tidelog.lab.enable=true to step through its fetches"
            raise BadRequest(HTTPStatus.FORBIDDEN, reason)
        return self._lab


def _order(body: bytes) -> tuple[str, dict[str, Any]]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "the body is not JSON") from None
    if not isinstance(document, dict) or len(document) != 1:
        raise BadRequest(HTTPStatus.BAD_REQUEST, f"the body has to be like {EXAMPLE}")
    ((kind, order),) = document.items()
    if kind == "close" and order is True:
        return kind, {}
    if kind not in ("release", "answer") or not isinstance(order, dict):
        raise BadRequest(HTTPStatus.BAD_REQUEST, f"the body has to be like {EXAMPLE}")
    return kind, order


def _number(
    order: dict[str, Any], name: str, default: int | None = None, *, most: int = 2**31 - 1
) -> int:
    value = order.get(name, default)
    if type(value) is not int or not 0 <= value <= most:
        raise BadRequest(HTTPStatus.BAD_REQUEST, f"{name} has to be a number from 0 to {most}")
    return value


def _flag(order: dict[str, Any], name: str) -> bool:
    value = order.get(name, False)
    if type(value) is not bool:
        raise BadRequest(HTTPStatus.BAD_REQUEST, f"{name} has to be true or false")
    return value
