"""Connecting to peers that require TLS, a login with SASL, or both.

A connection is handed over when it is secure and logged in. A login may have an end: before that
the connection logs in again (KIP-368), and what is asked meanwhile waits for it.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tidelog.core.security.sasl import ClientConversation, LoginFailed
from tidelog.host import tasks
from tidelog.host.ports import (
    Buffer,
    Clock,
    ConnectionClosed,
    Listener,
    LoginRejected,
    MakeTlsContext,
    Network,
    NetworkError,
    OnOutcome,
    Outcome,
    PeerConnection,
    PeerNotTrusted,
    RequestConnection,
    RequestHandler,
)
from tidelog.rpc.logins import SASL_AUTHENTICATION_FAILED, UNSUPPORTED_SASL_MECHANISM
from tidelog.wire.protocol import Message, ProtocolError, RequestHeader, decode_response
from tidelog.wire.protocol import encode_request as encode
from tidelog.wire.protocol.schemas.sasl_authenticate_request import SaslAuthenticateRequest
from tidelog.wire.protocol.schemas.sasl_authenticate_response import SaslAuthenticateResponse
from tidelog.wire.protocol.schemas.sasl_handshake_request import SaslHandshakeRequest
from tidelog.wire.protocol.schemas.sasl_handshake_response import SaslHandshakeResponse

VERSION = 1
"""Of both requests: every broker with re-authentication speaks it."""
CORRELATION_ID = 0x7FFFFFF0
"""Of all of them: they are asked one at a time, and nobody else counts so far."""
RENEW_AT = 0.85
"""Of its lifetime a login is renewed, as Kafka's clients do at the earliest."""
LOGIN_TIMEOUT_MS = 10_000

Answered = TypeVar("Answered", bound=Message)


class Credentials(NamedTuple):
    """How to log in: a new conversation for every login."""

    mechanism: str
    begin: Callable[[], ClientConversation]


class SecuredNetwork:
    """A network on which every connection that we make is secured in the same way."""

    __slots__ = ("_client_id", "_clock", "_credentials", "_network", "_tls")

    def __init__(
        self,
        network: Network,
        clock: Clock,
        *,
        tls: MakeTlsContext | None = None,
        credentials: Credentials | None = None,
        client_id: str = "",
    ) -> None:
        self._network = network
        self._clock = clock
        self._tls = tls
        self._credentials = credentials
        self._client_id = client_id

    async def listen(
        self,
        host: str,
        port: int,
        on_connection: Callable[[PeerConnection], RequestHandler],
        *,
        privileged: bool = False,
        tls: MakeTlsContext | None = None,
    ) -> Listener:
        return await self._network.listen(host, port, on_connection, privileged=privileged, tls=tls)

    async def connect(
        self,
        host: str,
        port: int,
        *,
        timeout_ms: int,
        correlation_of: Callable[[memoryview], int] | None = None,
        tls: MakeTlsContext | None = None,
    ) -> RequestConnection:
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        connection = await self._network.connect(
            host,
            port,
            timeout_ms=timeout_ms,
            correlation_of=correlation_of,
            tls=tls or self._tls,
        )
        if self._credentials is None:
            return connection
        logged_in = LoggedInConnection(
            connection, self._credentials, self._clock, f"{host}:{port}", self._client_id
        )
        try:
            await logged_in.log_in(max(1, deadline_ms - self._clock.monotonic_ms()))
        except BaseException:
            connection.close()
            raise
        return logged_in

    def soon(self, work: Callable[[], None]) -> None:
        self._network.soon(work)


class Held(NamedTuple):
    """A request that waits for a login to be renewed."""

    buffers: Sequence[Buffer]
    on_outcome: OnOutcome | None
    timeout_ms: int
    correlation_id: int | None


class LoggedInConnection:
    """A connection with a login that may have an end: a `RequestConnection`."""

    __slots__ = (
        "_address",
        "_client_id",
        "_clock",
        "_connection",
        "_credentials",
        "_held",
        "_renew_at_ms",
        "_renewing",
    )

    def __init__(
        self,
        connection: RequestConnection,
        credentials: Credentials,
        clock: Clock,
        address: str,
        client_id: str,
    ) -> None:
        self._connection = connection
        self._credentials = credentials
        self._clock = clock
        self._address = address
        self._client_id = client_id
        self._renew_at_ms: int | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._held: list[Held] = []

    @property
    def is_closed(self) -> bool:
        return self._connection.is_closed

    def send(
        self,
        buffers: Sequence[Buffer],
        on_outcome: OnOutcome,
        *,
        timeout_ms: int,
        correlation_id: int | None = None,
    ) -> None:
        if self._must_wait():
            self._held.append(Held(buffers, on_outcome, timeout_ms, correlation_id))
            return
        self._connection.send(
            buffers, on_outcome, timeout_ms=timeout_ms, correlation_id=correlation_id
        )

    def post(self, buffers: Sequence[Buffer]) -> None:
        if self._must_wait():
            self._held.append(Held(buffers, None, 0, None))
            return
        self._connection.post(buffers)

    def close(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            self._renewing = None
        self._connection.close()
        self._fail_held(ConnectionClosed(f"{self._address}: closed by us"))

    async def log_in(self, timeout_ms: int) -> None:
        """LoginRejected if the peer says no, PeerNotTrusted if we do, or any NetworkError."""
        mechanism = self._credentials.mechanism
        handshake = await self._ask(
            SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse, timeout_ms
        )
        if handshake.error_code:
            offered = ", ".join(handshake.mechanisms) or "no login"
            raise self._rejected(handshake.error_code, f"{mechanism} asked for, {offered} offered")
        conversation = self._credentials.begin()
        message: bytes | None = conversation.begin()
        lifetime_ms = 0
        while message is not None:
            answer = await self._ask(
                SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse, timeout_ms
            )
            if answer.error_code:
                raise self._rejected(answer.error_code, answer.error_message or "")
            lifetime_ms = answer.session_lifetime_ms
            try:
                message = conversation.answer(bytes(answer.auth_bytes))
            except LoginFailed as failed:
                raise PeerNotTrusted(f"{self._address}: {failed}") from None
        now_ms = self._clock.monotonic_ms()
        self._renew_at_ms = now_ms + int(lifetime_ms * RENEW_AT) if lifetime_ms > 0 else None

    def _rejected(self, error_code: int, why: str) -> LoginRejected:
        names = {
            UNSUPPORTED_SASL_MECHANISM: "unsupported SASL mechanism",
            SASL_AUTHENTICATION_FAILED: "login refused",
        }
        what = names.get(error_code, f"login refused with error {error_code}")
        return LoginRejected(f"{self._address}: {what}: {why}", error_code)

    def _must_wait(self) -> bool:
        """Whether a login is under way; begins one when it is time."""
        if self._renew_at_ms is not None and self._clock.monotonic_ms() >= self._renew_at_ms:
            self._renew_at_ms = None
            self._renewing = tasks.begin(self._renew())
        return self._renewing is not None

    async def _renew(self) -> None:
        try:
            await self.log_in(LOGIN_TIMEOUT_MS)
        except NetworkError as error:
            self._renewing = None
            self._connection.close()
            self._fail_held(error)
            return
        self._renewing = None
        held, self._held = self._held, []
        for each in held:
            self._send_held(each)

    def _send_held(self, held: Held) -> None:
        try:
            if held.on_outcome is None:
                self.post(held.buffers)
            else:
                self.send(
                    held.buffers,
                    held.on_outcome,
                    timeout_ms=held.timeout_ms,
                    correlation_id=held.correlation_id,
                )
        except NetworkError as error:
            if held.on_outcome is not None:
                held.on_outcome(error)

    def _fail_held(self, error: NetworkError) -> None:
        held, self._held = self._held, []
        for each in held:
            if each.on_outcome is not None:
                each.on_outcome(error)

    async def _ask(self, request: Message, expected: type[Answered], timeout_ms: int) -> Answered:
        key = request.__api_key__
        header = RequestHeader(key, VERSION, CORRELATION_ID, self._client_id)
        answered: asyncio.Future[Message] = tasks.promise()

        def settle(outcome: Outcome) -> None:
            if answered.done():
                return
            if isinstance(outcome, NetworkError):
                answered.set_exception(outcome)
                return
            try:
                answered.set_result(decode_response(outcome, key, VERSION)[1])
            except ProtocolError as reason:
                error = NetworkError(f"{self._address} answered nonsense: {reason}")
                answered.set_exception(error)

        self._connection.send(
            encode(header, request),
            settle,
            timeout_ms=timeout_ms,
            correlation_id=CORRELATION_ID,
        )
        answer = await answered
        assert isinstance(answer, expected), (expected, answer)
        return answer


if TYPE_CHECKING:
    _PORT: type[Network] = SecuredNetwork  # the type checker compares them
    _CONNECTION: type[RequestConnection] = LoggedInConnection
