"""One request on its way through a node."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tidelog.core.security.principal import Principal
from tidelog.host import tasks
from tidelog.host.ports import Buffer, PeerConnection, ResponseSlot
from tidelog.rpc.caller import Caller
from tidelog.wire.protocol import (
    Message,
    RequestHeader,
    decode,
    encode_response,
    encode_response_header,
    response_class,
)

Handler = Callable[["Call"], None]
"""Serves one API. It answers before it returns, or keeps the call and answers later."""

_running: set[asyncio.Task[None]] = set()
"""The loop itself holds tasks only weakly."""


class Call:
    """A decoded request and the place of its answer.

    Records in `request` are views of the receive buffer: valid until the handler returns.
    """

    __slots__ = ("_slot", "caller", "connection", "header", "request", "version")

    def __init__(
        self,
        header: RequestHeader,
        request: Message,
        slot: ResponseSlot,
        connection: PeerConnection,
        caller: Caller,
    ) -> None:
        self.header = header
        self.version = header.api_version
        self.request = request
        self.connection = connection
        self.caller = caller
        self._slot = slot

    @property
    def client_id(self) -> str:
        return self.header.client_id or ""

    @property
    def principal(self) -> Principal:
        """Whom this is asked for."""
        return self.caller.principal

    @property
    def host(self) -> str:
        """The address it came from, without a port."""
        return self.caller.host

    @property
    def listener(self) -> str:
        """Name of the listener it came in through."""
        return self.caller.listener

    def answer(self, response: Message) -> None:
        assert response.__api_key__ == self.header.api_key, (response, self.header)
        self._slot.answer(encode_response(self.header.correlation_id, response, self.version))

    def answer_encoded(self, body: Buffer) -> None:
        """Answer with a body that was encoded before, for the version of this request."""
        header = self.header
        begin = encode_response_header(header.correlation_id, header.api_key, header.api_version)
        self._slot.answer([begin, body])

    def answer_nothing(self) -> None:
        """This request has no answer (acks=0)."""
        self._slot.answer_nothing()

    def when_it_holds_up(self, call: Callable[[], None]) -> None:
        """Call this once when answers to later requests of the connection wait for this one."""
        self._slot.when_it_holds_up(call)

    def amended_by(self, amend: Callable[[Message], None]) -> Callable[[Message], None]:
        """`amend`, together with what completes the answer already."""
        return amend

    def close(self) -> None:
        """End the connection: the only way to refuse where there is no answer to refuse with."""
        self.connection.close()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Answer from a coroutine. An exception of it ends the connection and is reported."""
        task = tasks.begin(self._guard(work))
        _running.add(task)
        task.add_done_callback(_running.discard)

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # the border of a task: a bug costs one connection
            self.connection.fail(error)


class AmendedCall(Call):
    """A call whose answer is completed before it leaves: by what was refused beforehand."""

    __slots__ = ("_amend",)

    def __init__(self, call: Call, amend: Callable[[Message], None]) -> None:
        super().__init__(call.header, call.request, call._slot, call.connection, call.caller)
        self._amend = call.amended_by(amend)

    def amended_by(self, amend: Callable[[Message], None]) -> Callable[[Message], None]:
        inner = self._amend

        def both(response: Message) -> None:
            amend(response)
            inner(response)

        return both

    def answer(self, response: Message) -> None:
        self._amend(response)
        super().answer(response)

    def answer_encoded(self, body: Buffer) -> None:
        self.answer(decode(response_class(self.header.api_key), self.version, body))

    def answer_nothing(self) -> None:
        """There is no answer in which to refuse, so the connection ends, as in Kafka."""
        super().answer_nothing()
        self.close()
