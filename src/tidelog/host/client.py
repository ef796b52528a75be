"""Asking a peer: frames out, answers in the same order.

Failures of a connection are distinguished, because they mean different things: refused and reset
mean that a process is gone and another replica may be asked immediately; a timeout means only that
nothing was received.
"""

import asyncio
import errno
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from tidelog.host.frames import FrameLimits, FrameStream
from tidelog.host.network_context import NetworkContext
from tidelog.host.ports import (
    Buffer,
    CloseReason,
    ConnectionClosed,
    MakeTlsContext,
    NetworkError,
    OnOutcome,
    Outcome,
    PeerNotTrusted,
    PeerRefused,
    PeerReset,
    PeerTimedOut,
    PeerUnreachable,
    RequestTimedOut,
    TooManyInFlight,
    UnexpectedResponse,
)
from tidelog.host.timers import Timer
from tidelog.host.tls_transport import TlsTransport, reason_text

MOST_IN_FLIGHT = 1_000

OpenTransport = Callable[[Callable[[], asyncio.BaseProtocol]], Awaitable[object]]

CLIENT_LIMITS = FrameLimits(in_flight_bytes=0, idle_timeout_ms=0)
"""We asked for what comes in, so it is not counted as somebody else's request."""


class FrameConnection:
    """A connection to a peer. Made by `connect`."""

    __slots__ = (
        "_address",
        "_context",
        "_correlation_of",
        "_looked_at_ms",
        "_most_in_flight",
        "_pending",
        "_refusal",
        "_secured",
        "_timer",
        "closed",
        "stream",
    )

    def __init__(
        self,
        context: NetworkContext,
        address: str,
        *,
        limits: FrameLimits = CLIENT_LIMITS,
        correlation_of: Callable[[memoryview], int] | None = None,
        most_in_flight: int = MOST_IN_FLIGHT,
    ) -> None:
        assert limits.in_flight_bytes == 0, limits
        self._context = context
        self._address = address
        self._correlation_of = correlation_of
        self._most_in_flight = most_in_flight
        self._pending: deque[Pending] = deque()
        self._timer: Timer | None = None
        self._looked_at_ms = 0
        """When the timer looks for requests whose deadline has passed."""
        self._secured: asyncio.Future[None] | None = None
        """Settled when the handshake is over; None without TLS."""
        self.closed: CloseReason | None = None
        self._refusal: str | None = None
        """Why the peer does not want our certificate."""
        self.stream = FrameStream(context, limits, self, trusted=True)

    @property
    def in_flight(self) -> int:
        """Requests without an answer, also those whose deadline has passed."""
        return len(self._pending)

    @property
    def is_closed(self) -> bool:
        return self.closed is not None

    @property
    def congested(self) -> bool:
        return self.stream.congested

    def send(
        self,
        buffers: Sequence[Buffer],
        on_outcome: OnOutcome,
        *,
        timeout_ms: int,
        correlation_id: int | None = None,
    ) -> None:
        if self.closed is not None:
            raise self._error_of(self.closed)
        if len(self._pending) >= self._most_in_flight:
            raise TooManyInFlight(f"{self._address} owes us {len(self._pending)} answers")
        deadline_ms = self._context.wheel.now_ms() + timeout_ms
        self._pending.append(Pending(on_outcome, correlation_id, deadline_ms, timeout_ms))
        if self._timer is None or deadline_ms < self._looked_at_ms:
            self._look_at(deadline_ms)
        self.stream.write(buffers, sum(map(len, buffers)))

    def post(self, buffers: Sequence[Buffer]) -> None:
        if self.closed is not None:
            raise self._error_of(self.closed)
        self.stream.write(buffers, sum(map(len, buffers)))

    def intercept(self, instead: Callable[[OnOutcome, int], OnOutcome]) -> None:
        """Have the outcomes of all requests that wait told to others, who are made of those who
        were to be told and of the deadlines."""
        for pending in self._pending:
            if pending.on_outcome is not None:
                pending.on_outcome = instead(pending.on_outcome, pending.deadline_ms)

    def close(self) -> None:
        self._end(CloseReason.CLOSED_BY_US)

    async def secure(self, host: str, tls: MakeTlsContext, transport: OpenTransport) -> None:
        """Connect and shake hands. OSError as without TLS, PeerNotTrusted if they do not agree."""
        self._secured = self._context.loop.create_future()
        make = partial(tls().wrap_bio, server_hostname=host)
        await transport(lambda: TlsTransport(self.stream, self, make, self._context))
        try:
            await self._secured
        except BaseException:
            self.stream.abort(CloseReason.INSECURE)
            raise

    def on_secured(self, certificate: bytes | None) -> None:
        if self._secured is not None and not self._secured.done():
            self._secured.set_result(None)

    def on_insecure(self, reason: ssl.SSLError | TimeoutError) -> None:
        if self._secured is not None and not self._secured.done():
            text = f"{self._address}: TLS: {reason_text(reason)}"
            if isinstance(reason, ssl.SSLEOFError):
                self._secured.set_exception(ConnectionClosed(text))
            elif isinstance(reason, ssl.SSLError):
                self._secured.set_exception(PeerNotTrusted(text))
            else:
                self._secured.set_exception(PeerTimedOut(text))

    def on_refused(self, reason: ssl.SSLError) -> None:
        self._refusal = f"{self._address}: TLS: {reason_text(reason)}"

    def on_connected(self) -> None:
        """The transport is there; `connect` returns next."""

    def on_frame(self, frame: memoryview) -> None:
        if not self._pending or not self._answers(self._pending[0], frame):
            self._end(CloseReason.UNEXPECTED_RESPONSE)
            return
        self._settle(self._pending.popleft(), frame)

    def on_closed(self, reason: CloseReason) -> None:
        self._fail_pending(reason)

    def _answers(self, pending: "Pending", frame: memoryview) -> bool:
        if pending.correlation_id is None or self._correlation_of is None:
            return True
        try:
            return self._correlation_of(frame) == pending.correlation_id
        except Exception:  # bytes of the peer that cannot be read are as bad as a wrong id
            return False

    def _end(self, reason: CloseReason) -> None:
        self._fail_pending(reason)
        self.stream.close(reason)

    def _fail_pending(self, reason: CloseReason) -> None:
        if self.closed is None:
            self.closed = reason
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        pending, self._pending = self._pending, deque()
        for request in pending:
            self._settle(request, self._error_of(self.closed))

    def _error_of(self, closed: CloseReason) -> NetworkError:
        if self._refusal is not None:
            return PeerNotTrusted(self._refusal)
        return error_of(closed, self._address)

    def _look_at(self, deadline_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._looked_at_ms = deadline_ms
        self._timer = self._context.wheel.add(deadline_ms, self._on_timer)

    def _on_timer(self) -> None:
        """One timer serves all requests, as nearly all are answered in time. A late one keeps its
        place in the order: its answer may still come, and must not be taken for the next one's."""
        self._timer = None
        now_ms = self._context.wheel.now_ms()
        for pending in list(self._pending):
            if pending.deadline_ms <= now_ms:
                text = f"{self._address} did not answer within {pending.timeout_ms} ms"
                self._settle(pending, RequestTimedOut(text))
        waiting = [each.deadline_ms for each in self._pending if each.on_outcome is not None]
        if waiting:
            self._look_at(min(waiting))

    def _settle(self, pending: "Pending", outcome: Outcome) -> None:
        on_outcome, pending.on_outcome = pending.on_outcome, None
        if on_outcome is None:
            return
        try:
            on_outcome(outcome)
        except Exception as error:
            # The caller's bug. It must not cost the other requests of this connection.
            self._context.loop.call_exception_handler(
                {"message": f"the receiver of an answer from {self._address}", "exception": error}
            )


class Pending:
    """A request that waits for its answer."""

    __slots__ = ("correlation_id", "deadline_ms", "on_outcome", "timeout_ms")

    def __init__(
        self,
        on_outcome: OnOutcome,
        correlation_id: int | None,
        deadline_ms: int,
        timeout_ms: int,
    ) -> None:
        self.on_outcome: OnOutcome | None = on_outcome
        self.correlation_id = correlation_id
        self.deadline_ms = deadline_ms
        self.timeout_ms = timeout_ms


async def connect(
    context: NetworkContext,
    host: str,
    port: int,
    *,
    timeout_ms: int,
    limits: FrameLimits = CLIENT_LIMITS,
    correlation_of: Callable[[memoryview], int] | None = None,
    tls: MakeTlsContext | None = None,
) -> FrameConnection:
    """A connection to the first address of `host` that takes one."""
    name = f"{host}:{port}"
    connection = FrameConnection(context, name, limits=limits, correlation_of=correlation_of)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await _connect_any(context.loop, (host, port), connection, tls)
    except OSError as error:
        raise connect_error(error, name) from None
    except UnicodeError:  # before anybody is asked, names are encoded for the resolver
        raise PeerUnreachable(f"{name}: not a host name") from None
    return connection


async def _connect_any(
    loop: asyncio.AbstractEventLoop,
    to: tuple[str, int],
    connection: FrameConnection,
    tls: MakeTlsContext | None,
) -> None:
    """One address after the other: asyncio, given all, would fold their errors into one text."""
    host, port = to
    failure = OSError(errno.EHOSTUNREACH, f"{host} has no address")
    for _, _, _, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        try:
            if tls is None:
                await loop.create_connection(lambda: connection.stream, str(address[0]), port)
            else:
                open_transport = partial(loop.create_connection, host=str(address[0]), port=port)
                await connection.secure(host, tls, open_transport)
            return
        except OSError as error:
            failure = error
    raise failure


def connect_error(error: OSError, address: str) -> NetworkError:
    if isinstance(error, ConnectionRefusedError):
        return PeerRefused(f"nobody listens on {address}")
    if isinstance(error, ConnectionResetError | ConnectionAbortedError | BrokenPipeError):
        return PeerReset(f"{address} dropped the connection while it was made")
    if isinstance(error, TimeoutError):
        return PeerTimedOut(f"{address} did not answer to connecting")
    return PeerUnreachable(f"{address}: {error.strerror or error}")


def error_of(reason: CloseReason, address: str) -> NetworkError:
    """What the end of a connection means for the requests on it."""
    if reason is CloseReason.RESET_BY_PEER:
        return PeerReset(f"{address} reset the connection")
    if reason in (CloseReason.PEER_TIMED_OUT, CloseReason.HALF_FRAME, CloseReason.SLOW_READER):
        return PeerTimedOut(f"{address}: {reason}")
    if reason in (
        CloseReason.UNEXPECTED_RESPONSE,
        CloseReason.NEGATIVE_LENGTH,
        CloseReason.FRAME_TOO_LARGE,
    ):
        return UnexpectedResponse(f"{address}: {reason}")
    if reason is CloseReason.NETWORK_FAILED:
        return PeerUnreachable(f"{address}: {reason}")
    return ConnectionClosed(f"{address}: {reason}")
