"""Asking another node: one connection, made on first use and again after it breaks.

Answers come in the order of the questions, so a question that may be parked at the other end
(a fetch) needs a peer of its own, or everything behind it waits too.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tidelog.host import tasks
from tidelog.host.frames import kept
from tidelog.host.ports import (
    Network,
    NetworkError,
    Outcome,
    RequestConnection,
    RequestTimedOut,
    TooManyInFlight,
)
from tidelog.wire.protocol import (
    Message,
    ProtocolError,
    RequestHeader,
    decode_response,
    encode_request_header,
    response_class,
)
from tidelog.wire.protocol import encode_request as encode

Answer = Message | NetworkError
OnAnswer = Callable[[Answer], None]

CONNECT_TIMEOUT_MS = 2_000


class EncodedRequest(NamedTuple):
    """A request of which the body was encoded before, for the version it is sent in."""

    api_key: int
    body: bytes


class Question(NamedTuple):
    api_key: int
    request: Message | EncodedRequest
    version: int
    on_answer: OnAnswer
    timeout_ms: int
    borrows: bool


class Peer:
    """The way to one address. Answers are decoded; failures are NetworkErrors, never raised.

    A connection that was refused or broke fails everything that waits on it, at once: who asked
    knows best whether and when to ask again. The next question connects anew. One on which a
    question timed out is retired: it is asked nothing more and still brings the other answers,
    for who asked must not do so again what the other end is about to answer.
    """

    __slots__ = (
        "_client_id",
        "_connecting",
        "_connection",
        "_correlation_id",
        "_network",
        "_open",
        "_retired",
        "_waiting",
        "address",
        "connect_timeout_ms",
    )

    def __init__(
        self,
        network: Network,
        address: tuple[str, int],
        client_id: str,
        *,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
    ) -> None:
        self.address = address
        self.connect_timeout_ms = connect_timeout_ms
        self._network = network
        self._client_id = client_id
        self._connection: RequestConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._open = 0
        """Questions on the present connection that were not answered and have time left."""
        self._retired: dict[RequestConnection, int] = {}
        """Earlier connections, and how many such questions each has; never none."""
        self._waiting: deque[Question] = deque()
        self._correlation_id = 0

    def send(
        self,
        request: Message | EncodedRequest,
        version: int,
        on_answer: OnAnswer,
        *,
        timeout_ms: int,
        borrows: bool = False,
    ) -> None:
        """Ask. `on_answer` is called once, later, with the response or a NetworkError.

        Who `borrows` is done with the records of the response when `on_answer` returns, and
        spares us a copy of them: they lie where the next bytes are received.
        """
        key = request.api_key if isinstance(request, EncodedRequest) else request.__api_key__
        question = Question(key, request, version, on_answer, timeout_ms, borrows)
        connection = self._usable()
        if connection is not None:
            self._ask(connection, question)
            return
        self._waiting.append(question)
        if self._connecting is None:
            self._connecting = tasks.begin(self._connect())

    async def ask(self, request: Message, version: int, *, timeout_ms: int) -> Message:
        """The response; raises a NetworkError when there is none."""
        future: asyncio.Future[Message] = tasks.promise()

        def settle(answer: Answer) -> None:
            if future.done():
                return  # nobody waits any more
            if isinstance(answer, NetworkError):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        self.send(request, version, settle, timeout_ms=timeout_ms)
        return await future

    async def tell(self, request: Message, version: int) -> None:
        """Send a request that has no answer (acks=0); raises a NetworkError if it cannot be sent.

        Not behind questions that wait for the connection: it goes out on one that is there.
        """
        while (connection := self._usable()) is None:
            if self._connecting is None:
                self._connecting = tasks.begin(self._connect())
            await asyncio.shield(self._connecting)
            if self._connection is None:
                raise NetworkError(f"{self.address} cannot be connected to")
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        header = RequestHeader(request.__api_key__, version, self._correlation_id, self._client_id)
        try:
            connection.post(encode(header, request))
        except NetworkError:
            self._drop(connection)
            raise

    def close(self) -> None:
        """Everything that waits fails. The peer may be used again."""
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        if self._connection is not None:
            self._drop(self._connection)
        for connection in tuple(self._retired):
            self._drop(connection)
        self._fail_waiting(NetworkError(f"{self.address} is not asked any more"))

    def _usable(self) -> RequestConnection | None:
        """Not one that ended while nobody waited on it. That was the end of an idle connection
        or of a process, long ago maybe, and is no answer to a question of now."""
        connection = self._connection
        if connection is not None and connection.is_closed:
            self._drop(connection)
        return self._connection

    async def _connect(self) -> None:
        host, port = self.address
        try:
            connection = await self._network.connect(
                host, port, timeout_ms=self.connect_timeout_ms, correlation_of=correlation_of
            )
        except NetworkError as error:
            self._connecting = None
            self._fail_waiting(error)
            return
        self._connecting = None
        self._connection = connection
        waiting, self._waiting = self._waiting, deque()
        for question in waiting:
            self._ask(connection, question)

    def _ask(self, connection: RequestConnection, question: Question) -> None:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        request = question.request
        header = RequestHeader(
            question.api_key, question.version, self._correlation_id, self._client_id
        )
        try:
            connection.send(
                [encode_request_header(header) + request.body]
                if isinstance(request, EncodedRequest)
                else encode(header, request),
                partial(self._on_outcome, connection, question),
                timeout_ms=question.timeout_ms,
                correlation_id=self._correlation_id,
            )
        except NetworkError as error:
            if isinstance(error, TooManyInFlight):
                self._retire(connection)
            else:
                self._drop(connection)
            tasks.soon(question.on_answer, error)
        else:
            self._open += 1

    def _on_outcome(
        self, connection: RequestConnection, question: Question, outcome: Outcome
    ) -> None:
        if isinstance(outcome, NetworkError):
            # In a turn of its own: whoever closes a connection is not called back meanwhile.
            tasks.soon(self._failed, connection, question, outcome)
            return
        if connection is self._connection:
            self._open -= 1
        else:  # not now: the answer lies in its memory
            tasks.soon(self._settled, connection)
        key, version = question.api_key, question.version
        if not question.borrows and response_class(key).__holds_records__:
            outcome = kept(outcome)
        try:
            _, response = decode_response(outcome, key, version)
        except ProtocolError as reason:
            self._drop(connection)
            question.on_answer(NetworkError(f"{self.address} answered nonsense: {reason}"))
            return
        question.on_answer(response)

    def _failed(
        self, connection: RequestConnection, question: Question, error: NetworkError
    ) -> None:
        if isinstance(error, RequestTimedOut):
            self._settled(connection)
            self._retire(connection)
        else:
            self._drop(connection)
        question.on_answer(error)

    def _settled(self, connection: RequestConnection) -> None:
        """One question less. A retired connection ends with its last one."""
        if connection is self._connection:
            self._open -= 1
        elif connection in self._retired:
            self._retired[connection] -= 1
            if not self._retired[connection]:
                self._drop(connection)

    def _retire(self, connection: RequestConnection) -> None:
        """After a timeout: the answer that is late would block those of later questions."""
        if connection is not self._connection:
            return
        if not self._open:
            self._drop(connection)
            return
        self._retired[connection] = self._open
        self._connection, self._open = None, 0

    def _drop(self, connection: RequestConnection) -> None:
        if connection is self._connection:
            self._connection, self._open = None, 0
        elif self._retired.pop(connection, None) is None:
            return
        connection.close()

    def _fail_waiting(self, error: NetworkError) -> None:
        waiting, self._waiting = self._waiting, deque()
        for question in waiting:
            question.on_answer(error)


def correlation_of(frame: memoryview) -> int:
    return int.from_bytes(frame[:4], "big", signed=True)
