"""The real network: TCP on the running event loop."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tidelog.host import client
from tidelog.host.answers import AnswerBudget
from tidelog.host.client import CLIENT_LIMITS, FrameConnection
from tidelog.host.flight import NetworkCounters, NodeFlight
from tidelog.host.frames import FrameLimits
from tidelog.host.network_context import NetworkContext
from tidelog.host.ports import Clock, CloseReason, MakeTlsContext, Network
from tidelog.host.reports import FailureReport, FailureReports
from tidelog.host.server import Admission, ConnectionLimits, FrameServer, OnConnection
from tidelog.host.timers import LoopDriver, TimerWheel

NODE_IN_FLIGHT_BYTES = 128 * 1024 * 1024


class TcpNetwork:
    """All listeners and connections of one node, with its bounds, timers and counters.

    Made inside a running loop; `close` after the last listener has stopped.
    """

    __slots__ = ("_driver", "_servers", "admission", "context", "frame_limits", "reports", "wheel")

    def __init__(
        self,
        clock: Clock,
        *,
        frame_limits: FrameLimits = FrameLimits(),  # noqa: B008 - an immutable tuple
        connection_limits: ConnectionLimits = ConnectionLimits(),  # noqa: B008
        in_flight_bytes: int = NODE_IN_FLIGHT_BYTES,
        on_failure: Callable[[FailureReport], None] | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.wheel = TimerWheel(clock)
        self.context = NetworkContext(loop, self.wheel, NodeFlight(in_flight_bytes), AnswerBudget())
        fire = partial(self.context.together, self.wheel.fire_due)
        self._driver = LoopDriver(self.wheel, loop, fire)
        self.frame_limits = frame_limits
        self._servers: list[FrameServer] = []
        self.admission = Admission(connection_limits)
        self.reports = FailureReports(clock, on_failure)

    @property
    def counters(self) -> NetworkCounters:
        return self.context.counters

    async def listen(
        self,
        host: str,
        port: int,
        on_connection: OnConnection,
        *,
        privileged: bool = False,
        tls: MakeTlsContext | None = None,
    ) -> FrameServer:
        server = FrameServer(
            self.context,
            on_connection,
            admission=self.admission,
            reports=self.reports,
            frame_limits=self.frame_limits,
            privileged=privileged,
            tls=tls,
        )
        await server.start(host, port)
        self._servers.append(server)
        return server

    async def connect(
        self,
        host: str,
        port: int,
        *,
        timeout_ms: int,
        correlation_of: Callable[[memoryview], int] | None = None,
        tls: MakeTlsContext | None = None,
    ) -> FrameConnection:
        return await client.connect(
            self.context,
            host,
            port,
            timeout_ms=timeout_ms,
            limits=CLIENT_LIMITS,
            correlation_of=correlation_of,
            tls=tls,
        )

    def soon(self, work: Callable[[], None]) -> None:
        self.context.loop.call_soon(self.context.together, work)

    def sever(self) -> None:
        """Every listener and connection ends at once, with whatever was not sent: what the
        operating system does for a process that is killed. Timers fire no more."""
        for server in self._servers:
            server.sever()
        for stream in tuple(self.context.open):
            stream.abort(CloseReason.STOPPED)
        self.close()

    def close(self) -> None:
        self._driver.close()


if TYPE_CHECKING:
    _PORT: type[Network] = TcpNetwork  # the type checker compares them
