"""Several decisions, one answer."""

from typing import Any

from support.manual_clock import ManualClock
from tidelog.controller.open_request import OpenRequest, Refused
from tidelog.core.errors import Error
from tidelog.core.requests import (
    AdminResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControllerResponse,
    DeleteTopicRequest,
)
from tidelog.host.timers import TimerWheel

STEPS = (DeleteTopicRequest("a"), DeleteTopicRequest("b"))
DONE = AdminResponse(Error.NONE)


class Connection:
    """Remembers what failed on it."""

    def __init__(self) -> None:
        self.failures: list[Exception] = []

    def fail(self, error: Exception) -> None:
        self.failures.append(error)


class Caller:
    def __init__(self) -> None:
        self.connection = Connection()
        self.answers: list[list[ControllerResponse]] = []

    def ask(self, *steps: Any) -> OpenRequest:
        call: Any = self
        return OpenRequest(call, steps, lambda responses: self.answers.append(list(responses)))


def test_the_answer_leaves_with_the_last_response_in_the_order_of_the_steps() -> None:
    caller = Caller()
    asked = caller.ask(*STEPS)
    asked.settle(1, AdminResponse(Error.UNKNOWN_TOPIC_OR_PARTITION))
    assert asked.is_open
    assert not caller.answers
    asked.settle(0, DONE)
    assert not asked.is_open
    assert caller.answers == [[DONE, AdminResponse(Error.UNKNOWN_TOPIC_OR_PARTITION)]]


def test_nothing_to_decide_is_answered_at_once() -> None:
    caller = Caller()
    assert not caller.ask().is_open
    assert caller.answers == [[]]


def test_what_is_decided_too_late_changes_nothing_about_the_answer() -> None:
    caller = Caller()
    asked = caller.ask(*STEPS, AlterPartitionRequest(1, 1, ()))
    asked.settle(0, DONE)
    asked.expire(500)
    ((first, second, third),) = caller.answers
    assert first == DONE
    assert isinstance(second, AdminResponse)
    assert second.error is Error.REQUEST_TIMED_OUT
    assert "500 ms" in second.message
    assert third == AlterPartitionResponse(Error.REQUEST_TIMED_OUT)
    asked.settle(1, DONE)
    assert len(caller.answers) == 1


def test_the_deadline_goes_with_the_answer() -> None:
    wheel = TimerWheel(ManualClock())
    asked = Caller().ask(STEPS[0], Refused(DONE))
    asked.wait(wheel.after(100, lambda: asked.expire(100)))
    asked.settle(1, DONE)
    assert len(wheel) == 1
    asked.settle(0, DONE)
    assert len(wheel) == 0


def test_an_answer_that_cannot_be_given_costs_its_connection_and_nothing_else() -> None:
    """It is given while entries are committed: the quorum must not hear of it."""
    caller = Caller()
    broken = ValueError("no such letter")

    def finish(_: object) -> None:
        raise broken

    call: Any = caller
    OpenRequest(call, STEPS[:1], finish).settle(0, DONE)
    assert caller.connection.failures == [broken]
