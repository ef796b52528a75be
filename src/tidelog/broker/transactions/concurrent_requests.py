"""Requests that begin something while the end of the last transaction is still being written.

That takes milliseconds, but clients that get a retriable error pause for 20 to 500 ms. So these
requests wait here, and are tried again in the turn in which the coordinator learns of the last
marker: what they add then is replicated together with the record that completes the transaction.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.core.coordination import Token
from tidelog.core.errors import Error
from tidelog.core.transactions.requests import AddPartitionsResponse, ProducerIdentity
from tidelog.host.timers import Timer, TimerWheel

PATIENCE_MS = 100


class ConcurrentRequests:
    """Owner of the requests that may be told CONCURRENT_TRANSACTIONS, by transactional id."""

    __slots__ = ("_open", "_timers")

    def __init__(self, timers: TimerWheel) -> None:
        self._timers = timers
        self._open: dict[str, list[ConcurrentRequest]] = {}

    def ask(self, transactional_id: str, token: Token, ask_with: Callable[[Token], None]) -> None:
        """`ask_with` asks the coordinator; it is called again if that makes sense."""
        request = ConcurrentRequest(self, transactional_id, token, ask_with)
        self._open.setdefault(transactional_id, []).append(request)
        request.start(self._timers)

    def on_end(self, transactional_id: str) -> None:
        """All markers of its transaction are written, and its coordinator has been told."""
        for request in tuple(self._open.get(transactional_id, ())):
            request.on_end()

    def close(self, request: ConcurrentRequest) -> None:
        requests = self._open[request.transactional_id]
        requests.remove(request)
        if not requests:
            del self._open[request.transactional_id]


class ConcurrentRequest:
    """One of them: the token that its coordinator sees. An answer may be on its way while the
    transaction ends, so what it says is compared with what has been heard since it was asked."""

    __slots__ = ("_ask", "_early", "_ended", "_owner", "_timer", "_token", "transactional_id")

    def __init__(
        self,
        owner: ConcurrentRequests,
        transactional_id: str,
        token: Token,
        ask_with: Callable[[Token], None],
    ) -> None:
        self.transactional_id = transactional_id
        self._owner = owner
        self._token = token
        self._ask = ask_with
        self._ended = False
        self._early: object = None
        """The answer that came too early, while we wait."""
        self._timer: Timer | None = None

    def start(self, timers: TimerWheel) -> None:
        self._timer = timers.after(PATIENCE_MS, self._give_up)
        self._ask(self)

    def on_end(self) -> None:
        if self._early is None:
            self._ended = True  # its answer is on the way
        else:
            self._ask_again()

    def answer(self, response: object) -> None:
        assert isinstance(response, ProducerIdentity | AddPartitionsResponse), response
        if response.error is not Error.CONCURRENT_TRANSACTIONS or self._timer is None:
            self._finish()
            self._token.answer(response)
        elif self._ended:
            self._ask_again()
        else:
            self._early = response

    def refuse(self, error: Error) -> None:
        self._finish()
        self._token.refuse(error)

    def _ask_again(self) -> None:
        self._ended, self._early = False, None
        self._ask(self)

    def _give_up(self) -> None:
        """What it was told last is the answer; what is on its way will be."""
        self._timer = None
        if self._early is not None:
            self._finish()
            self._token.answer(self._early)

    def _finish(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._owner.close(self)
