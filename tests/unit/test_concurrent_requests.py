"""A request that comes while the last transaction is being ended waits for its end."""

from support.manual_clock import ManualClock
from tidelog.broker.transactions.concurrent_requests import PATIENCE_MS, ConcurrentRequests
from tidelog.core.coordination import Token
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.transactions.requests import ProducerIdentity
from tidelog.host.timers import TimerWheel

TOO_EARLY = ProducerIdentity(Error.CONCURRENT_TRANSACTIONS)
DONE = ProducerIdentity(NO_ERROR, 7, 1)


class Client:
    """Asks, and notes what it hears."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timers = TimerWheel(self.clock)
        self.early = ConcurrentRequests(self.timers)
        self.questions: list[Token] = []
        self.heard: list[object] = []

    def ask(self) -> None:
        self.early.ask("mine", self, self.questions.append)

    def answer(self, response: object) -> None:
        self.heard.append(response)

    def refuse(self, error: Error) -> None:
        self.heard.append(error)

    def pass_time(self, by_ms: int) -> None:
        self.clock.advance(by_ms)
        self.timers.fire_due()


def test_what_is_not_too_early_is_answered_at_once() -> None:
    client = Client()
    client.ask()
    client.questions.pop().answer(DONE)
    client.ask()
    client.questions.pop().refuse(Error.NOT_COORDINATOR)
    assert client.heard == [DONE, Error.NOT_COORDINATOR]
    client.early.on_end("mine")
    client.pass_time(PATIENCE_MS)
    assert (client.questions, len(client.timers)) == ([], 0)


def test_what_is_too_early_is_asked_again_at_the_end_of_the_transaction() -> None:
    client = Client()
    client.ask()
    client.questions.pop().answer(TOO_EARLY)
    client.early.on_end("another")
    assert (client.questions, client.heard) == ([], [])
    client.early.on_end("mine")
    client.questions.pop().answer(DONE)
    assert client.heard == [DONE]
    assert len(client.timers) == 0


def test_an_end_that_overtakes_the_answer_is_not_missed() -> None:
    client = Client()
    client.ask()
    client.early.on_end("mine")
    client.questions.pop().answer(TOO_EARLY)
    client.questions.pop().answer(DONE)
    assert client.heard == [DONE]


def test_nobody_waits_for_long() -> None:
    client = Client()
    client.ask()
    client.questions.pop().answer(TOO_EARLY)
    client.pass_time(PATIENCE_MS - 10)
    assert client.heard == []
    client.pass_time(10)
    assert client.heard == [TOO_EARLY]
    client.early.on_end("mine")
    assert client.questions == []


def test_an_answer_that_comes_when_the_time_is_over_is_the_last_one() -> None:
    client = Client()
    client.ask()
    client.early.on_end("mine")
    client.pass_time(PATIENCE_MS)
    client.questions.pop().answer(TOO_EARLY)
    assert client.heard == [TOO_EARLY]
    assert client.questions == []
