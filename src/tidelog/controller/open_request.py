"""One request from the wire, which the controller handles as one or several decisions.

The answer is sent when all of them are made and committed, or when the request times out. Anything
undecided by then may still happen, and the answer says so.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar, cast

from tidelog.core.errors import Error
from tidelog.core.metadata.decision import refuse
from tidelog.core.requests import (
    AdminResponse,
    ControllerRequest,
    ControllerResponse,
    CreateTopicResponse,
    DeleteAclsResponse,
)
from tidelog.host.ports import PeerConnection
from tidelog.host.timers import Timer
from tidelog.rpc import Call

Response = TypeVar("Response", bound=ControllerResponse)
Finish = Callable[[Sequence[ControllerResponse]], None]

LATE = "not decided within {} ms; it may still be carried out"


class Refused(NamedTuple):
    """An item that is wrong in itself: nobody has to look at the cluster to say so."""

    response: ControllerResponse


Step = ControllerRequest | Refused
"""What becomes of one item of a request."""


class OpenRequest:
    """Collects the responses to the steps of one request, in their order."""

    __slots__ = ("_call", "_finish", "_open", "_responses", "_steps", "_timer")

    def __init__(self, call: Call, steps: Sequence[Step], finish: Finish) -> None:
        self._call = call
        self._steps = steps
        self._finish = finish
        self._responses: list[ControllerResponse | None] = [None] * len(steps)
        self._open = len(steps)
        self._timer: Timer | None = None
        if not steps:
            self._deliver()

    @property
    def is_open(self) -> bool:
        return self._open > 0

    def is_from(self, connection: PeerConnection) -> bool:
        return self._call.connection is connection

    def wait(self, timer: Timer) -> None:
        """`timer` ends the wait; it is cancelled when nothing is left to wait for."""
        self._timer = timer

    def settle(self, index: int, response: ControllerResponse) -> None:
        if self._responses[index] is not None:
            return  # its time was over
        self._responses[index] = response
        self._open -= 1
        if self._open == 0:
            if self._timer is not None:
                self._timer.cancel()
            self._deliver()

    def _deliver(self) -> None:
        """Often called while entries are committed: what goes wrong with one answer must not
        reach the quorum, so this is the border of its connection."""
        try:
            self._finish(cast("list[ControllerResponse]", self._responses))
        except Exception as error:
            self._call.connection.fail(error)

    def drop(self) -> None:
        """Nobody is left to be answered, and nothing will be settled any more."""
        if self._timer is not None:
            self._timer.cancel()

    def expire(self, timeout_ms: int) -> None:
        for index, step in enumerate(self._steps):
            if self._responses[index] is None:
                late = refusal(step, Error.REQUEST_TIMED_OUT, LATE.format(timeout_ms))
                self.settle(index, late)


class Ticket(NamedTuple):
    """The token of one decision."""

    asked: OpenRequest
    number: int
    """Which step of it."""


def refusal(step: Step, error: Error, message: str) -> ControllerResponse:
    """The answer to a step that was not carried out, with the reason where there is room."""
    if isinstance(step, Refused):
        response = step.response._replace(error=error)
    else:
        response = refuse(step, error)
    if isinstance(response, AdminResponse | CreateTopicResponse | DeleteAclsResponse):
        response = response._replace(message=message)
    return response


def expect(response: ControllerResponse, kind: type[Response]) -> Response:
    assert isinstance(response, kind), (response, kind)
    return response
