"""Accepting connections and keeping the order of answers.

Every request gets a slot in the first-in-first-out queue of its connection. Handlers run in the
read callback, without a task; they fill the slot immediately or keep it and fill it later. An
answer is sent when all answers before it have been sent: clients match answers to requests by
order.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from tidelog.host.file_range import LEAST_BYTES as LEAST_RANGE_BYTES
from tidelog.host.file_range import read_all
from tidelog.host.frames import (
    ANSWERS_HELD,
    PAUSED_BY_OWNER,
    STOPPING,
    FrameLimits,
    FrameStream,
    charge_of,
)
from tidelog.host.listening import close_listening
from tidelog.host.network_context import NetworkContext
from tidelog.host.ports import (
    BadRequest,
    Buffer,
    CloseReason,
    FileRange,
    MakeTlsContext,
    PeerConnection,
    RequestHandler,
)
from tidelog.host.reports import FailureReports
from tidelog.host.tls_transport import TlsTransport, reason_text

OnConnection = Callable[[PeerConnection], RequestHandler]

_BACKLOG = 1024


class Insecure(BadRequest):
    """The handshake of TLS failed."""

    reason = CloseReason.INSECURE

    @property
    def kind(self) -> str:
        """Each of OpenSSL's reasons: many clients run on one machine, and fail for their own."""
        return str(self)


class ConnectionLimits(NamedTuple):
    """Bounds of a node. The reserve is part of `total`, for privileged listeners only: a flood of
    clients must not lock out the other brokers and the person who comes to help."""

    total: int = 10_000
    per_address: int = 1_000
    reserve: int = 100


class Admission:
    """Who may connect. Shared by all listeners of a node."""

    __slots__ = ("_by_address", "_limits", "open")

    def __init__(self, limits: ConnectionLimits) -> None:
        assert 0 <= limits.reserve < limits.total, limits
        self._limits = limits
        self._by_address: dict[str, int] = {}
        self.open = 0

    def refusal(self, address: str, *, privileged: bool) -> CloseReason | None:
        """Why this connection may not be, or None if it may."""
        limits = self._limits
        if self.open >= (limits.total if privileged else limits.total - limits.reserve):
            return CloseReason.TOO_MANY_CONNECTIONS
        if not privileged and self._by_address.get(address, 0) >= limits.per_address:
            return CloseReason.TOO_MANY_FROM_ADDRESS
        return None

    def enter(self, address: str) -> None:
        self.open += 1
        self._by_address[address] = self._by_address.get(address, 0) + 1

    def leave(self, address: str) -> None:
        left = self._by_address[address] - 1
        self.open -= 1
        assert left >= 0, (address, left)
        assert self.open >= 0, (address, self.open)
        if left:
            self._by_address[address] = left
        else:
            del self._by_address[address]


class FrameServer:
    """One listening socket and the connections that came in through it."""

    __slots__ = (
        "_aborted",
        "_connections",
        "_context",
        "_frame_limits",
        "_on_connection",
        "_privileged",
        "_server",
        "_stopped",
        "_stopping",
        "_tls",
        "admission",
        "reports",
    )

    def __init__(
        self,
        context: NetworkContext,
        on_connection: OnConnection,
        *,
        admission: Admission,
        reports: FailureReports,
        frame_limits: FrameLimits = FrameLimits(),  # noqa: B008 - an immutable tuple
        privileged: bool = False,
        tls: MakeTlsContext | None = None,
    ) -> None:
        assert frame_limits.in_flight_bytes > 0, "a server without bounds"
        self._context = context
        self._on_connection = on_connection
        self.admission = admission
        self.reports = reports
        self._frame_limits = frame_limits
        self._privileged = privileged
        self._tls = tls
        self._connections: dict[ServerConnection, None] = {}
        self._server: asyncio.Server | None = None
        self._stopping = False
        self._stopped: asyncio.Future[None] | None = None
        self._aborted = 0

    async def start(self, host: str, port: int) -> None:
        assert self._server is None, "started already"
        self._server = await self._context.loop.create_server(
            self._new_stream, host, port, backlog=_BACKLOG
        )

    @property
    def port(self) -> int:
        assert self._server is not None, "not started"
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def connections(self) -> "tuple[ServerConnection, ...]":
        return tuple(self._connections)

    async def stop(self, *, timeout_ms: int) -> int:
        assert self._server is not None, "not started"
        assert not self._stopping, "stopped already"
        self._stopping = True
        timer = self._context.wheel.after(timeout_ms, self._abort_rest)
        try:
            for connection in self.connections:
                connection.drain()
            await close_listening(self._server)
            if self._connections:
                self._stopped = self._context.loop.create_future()
                await self._stopped
        finally:
            timer.cancel()
        return self._aborted

    def sever(self) -> None:
        """Accept nothing more, and wait for nobody. Connections are not its business."""
        self._stopping = True
        if self._server is not None:
            self._server.close()

    def _new_stream(self) -> asyncio.BaseProtocol:
        connection = ServerConnection(self, self._context, self._frame_limits)
        if self._tls is None:
            return connection.stream
        make = partial(self._tls().wrap_bio, server_side=True)
        return TlsTransport(connection.stream, connection, make, self._context)

    def _abort_rest(self) -> None:
        for connection in self.connections:
            self._aborted += 1
            connection.stream.abort(CloseReason.STOPPED_LATE)

    def admit(self, connection: "ServerConnection") -> RequestHandler | None:
        """The handler of a new connection, or None: it was refused, or is not secure yet."""
        stream = connection.stream
        if self._stopping:
            stream.abort(CloseReason.STOPPED)
            return None
        refusal = self.admission.refusal(stream.peer, privileged=self._privileged)
        if refusal is not None:
            stream.abort(refusal)
            return None
        self.admission.enter(stream.peer)
        self._connections[connection] = None
        self._context.counters.accepted += 1
        return self.handler_of(connection) if self._tls is None else None

    def handler_of(self, connection: "ServerConnection") -> RequestHandler | None:
        try:
            return self._on_connection(connection)
        except Exception as error:
            connection.fail(error)
            return None

    def forget(self, connection: "ServerConnection") -> None:
        if connection not in self._connections:
            return  # it was refused
        del self._connections[connection]
        self.admission.leave(connection.stream.peer)
        if not self._connections and self._stopped is not None and not self._stopped.done():
            self._stopped.set_result(None)


class ServerConnection:
    """An accepted connection: its requests in order, its answers in the same order."""

    __slots__ = (
        "_answers",
        "_draining",
        "_handler",
        "_held_limit",
        "_server",
        "_slots",
        "certificate",
        "stream",
    )

    def __init__(self, server: FrameServer, context: NetworkContext, limits: FrameLimits) -> None:
        self.stream = FrameStream(context, limits, self, trusted=False)
        self._server = server
        self._answers = context.answers
        self._handler: RequestHandler | None = None
        self._slots: deque[Slot] = deque()
        self._held_limit = limits.write_high_bytes
        self._draining = False
        self.certificate: bytes | None = None

    @property
    def trusted(self) -> bool:
        return self.stream.trusted

    @trusted.setter
    def trusted(self, trusted: bool) -> None:
        self.stream.trusted = trusted

    @property
    def peer(self) -> str:
        return self.stream.peer

    @property
    def congested(self) -> bool:
        return self.stream.congested

    @property
    def allowance_bytes(self) -> int:
        return self._answers.allowance_bytes

    @property
    def open_requests(self) -> int:
        return len(self._slots)

    @property
    def held_bytes(self) -> int:
        """Of answers that are ready and wait for earlier ones."""
        return self.stream.held_bytes

    def pause(self) -> None:
        self.stream.pause(PAUSED_BY_OWNER)

    def resume(self) -> None:
        self.stream.resume(PAUSED_BY_OWNER)

    def fail(self, error: Exception) -> None:
        if isinstance(error, BadRequest):
            self._server.reports.refuse(error, self.peer)
            self.stream.close(error.reason)
        else:
            self._server.reports.report(error, self.peer)
            self.stream.close(CloseReason.HANDLER_FAILED)

    def close(self) -> None:
        self.stream.close(CloseReason.CLOSED_BY_US)

    def drain(self) -> None:
        """Take no more requests; close when the last answer has left."""
        self._draining = True
        self.stream.pause(STOPPING)
        if not self._slots:
            self.stream.close(CloseReason.STOPPED)

    def on_connected(self) -> None:
        self._handler = self._server.admit(self)

    def on_secured(self, certificate: bytes | None) -> None:
        self.certificate = certificate
        self._handler = self._server.handler_of(self)

    def on_insecure(self, reason: ssl.SSLError | TimeoutError) -> None:
        if isinstance(reason, ssl.SSLEOFError):
            return  # a probe, or somebody who changed their mind
        if not self.stream.has_ended:
            self.fail(Insecure(f"TLS: {reason_text(reason)}"))

    def on_refused(self, reason: ssl.SSLError) -> None:
        """A client has seen our certificate before the handshake ends, so it says no there."""

    def on_frame(self, frame: memoryview) -> None:
        assert self._handler is not None, "a refused connection was read"
        slot = Slot(self, charge_of(len(frame)))
        self._slots.append(slot)
        try:
            self._handler.on_request(frame, slot)
        except Exception as error:
            self.fail(error)

    def on_closed(self, reason: CloseReason) -> None:
        for slot in self._slots:
            slot.abandon()
        self._slots.clear()
        self._server.forget(self)
        handler, self._handler = self._handler, None
        if handler is not None:
            try:
                handler.on_closed(reason)
            except Exception as error:
                self._server.reports.report(error, self.peer)

    def on_filled(self, slot: "Slot") -> None:
        slots, stream = self._slots, self.stream
        first = slots[0]
        if first is not slot:
            if slot.parts is not None and slot.size_bytes >= LEAST_RANGE_BYTES:
                try:
                    slot.parts = read_all(slot.parts)
                except OSError as error:
                    self.fail(error)
                    return
            stream.hold(slot.size_bytes)
            if stream.held_bytes > self._held_limit:
                stream.pause(ANSWERS_HELD)
            if first.hurry is not None:
                first.hurry_up()
            return
        slots.popleft()
        parts, slot.parts = slot.parts, None  # who asked may keep the slot for long
        if parts is not None:
            stream.write(parts, slot.size_bytes)
        charge_bytes = slot.charge_bytes
        if slots and slots[0].filled:
            charge_bytes += self._send_held()
        stream.release(charge_bytes)
        if slots:
            if slots[0].hurry is not None and stream.held_bytes:
                slots[0].hurry_up()
        elif self._draining:
            stream.close(CloseReason.STOPPED)

    def is_held_up_by(self, slot: "Slot") -> bool:
        """Whether answers wait for this one, and for no other."""
        return bool(self.stream.held_bytes) and self._slots[0] is slot

    def _send_held(self) -> int:
        """What waited for the answer that has left; the bytes their requests were charged."""
        slots, stream = self._slots, self.stream
        charge_bytes = 0
        while slots and slots[0].filled:
            slot = slots.popleft()
            stream.unhold(slot.size_bytes)
            parts, slot.parts = slot.parts, None
            if parts is not None:
                stream.write(parts, slot.size_bytes)
            charge_bytes += slot.charge_bytes
        if stream.held_bytes <= self._held_limit:
            stream.resume(ANSWERS_HELD)
        return charge_bytes


class Slot:
    """The place of one request in its connection's order of answers."""

    __slots__ = ("_connection", "charge_bytes", "filled", "hurry", "parts", "size_bytes")

    def __init__(self, connection: ServerConnection, charge_bytes: int) -> None:
        self._connection: ServerConnection | None = connection
        self.charge_bytes = charge_bytes
        self.parts: Sequence[Buffer | FileRange] | None = None
        self.size_bytes = 0
        self.filled = False
        self.hurry: Callable[[], None] | None = None

    def answer(self, parts: Sequence[Buffer | FileRange]) -> None:
        self.size_bytes = sum(map(len, parts))
        self._fill(parts)

    def answer_nothing(self) -> None:
        self._fill(None)

    def when_it_holds_up(self, call: Callable[[], None]) -> None:
        if self.filled or self._connection is None:
            return
        self.hurry = call
        if self._connection.is_held_up_by(self):
            self.hurry_up()

    def hurry_up(self) -> None:
        hurry, self.hurry = self.hurry, None
        assert hurry is not None, "nobody was to be told"
        hurry()

    def abandon(self) -> None:
        """Its connection is gone."""
        self._connection = None
        self.parts = None
        self.hurry = None

    def _fill(self, parts: Sequence[Buffer | FileRange] | None) -> None:
        assert not self.filled, "a request was answered twice"
        self.filled = True
        self.hurry = None
        connection, self._connection = self._connection, None
        if connection is not None:
            self.parts = parts
            connection.on_filled(self)
