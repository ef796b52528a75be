"""A network with a gate towards every peer: cuts off a running node without root permissions.

Only what this node asks of others passes the gate; what others ask of it passes theirs. So a cut
between two nodes is complete when both were told, and a cut of one direction can be had as well.

A closed gate is a cut wire, not a refusal: connecting gets no answer, connections stay open and
carry nothing, in either direction, not even that they were closed. When the gate opens again, what
was under way arrives, unless somebody has given up on it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidelog.host import tasks
from tidelog.host.client import FrameConnection
from tidelog.host.frames import kept
from tidelog.host.network import TcpNetwork
from tidelog.host.ports import (
    Buffer,
    ConnectionClosed,
    Listener,
    MakeTlsContext,
    Network,
    NetworkError,
    OnOutcome,
    Outcome,
    PeerConnection,
    PeerTimedOut,
    RequestConnection,
    RequestHandler,
    RequestTimedOut,
)
from tidelog.host.timers import Timer, TimerWheel

Address = tuple[str, int]


class Faults(NamedTuple):
    """What is broken on purpose, by node id."""

    blocked: frozenset[int] = frozenset()
    latency_ms: Mapping[int, int] = {}
    """Added to every request to that node."""


NO_FAULTS = Faults()


class GatedNetwork:
    """Wraps the network of a node. `know` says which addresses belong to which node."""

    __slots__ = (
        "_connections",
        "_network",
        "_nodes",
        "_timers",
        "_waiters",
        "faults",
        "is_open",
    )

    def __init__(self, network: TcpNetwork, timers: TimerWheel) -> None:
        self.faults = NO_FAULTS
        self.is_open = True
        """Nothing is broken at all."""
        self._network = network
        self._timers = timers
        self._nodes: dict[Address, int] = {}
        self._connections: dict[GatedConnection, None] = {}
        self._waiters: dict[asyncio.Future[None], None] = {}

    @property
    def known_nodes(self) -> tuple[int, ...]:
        return tuple(sorted(set(self._nodes.values())))

    def know(self, node_id: int, addresses: Iterable[Address]) -> None:
        """These, and no others any more, lead to this node."""
        self._nodes = {a: node for a, node in self._nodes.items() if node != node_id}
        self._nodes.update(dict.fromkeys(addresses, node_id))

    def node_at(self, address: Address) -> int | None:
        """None: nobody has said who listens there."""
        return self._nodes.get(address)

    def set(self, faults: Faults) -> None:
        """From now on; what was under way through a gate that opens goes on."""
        self.faults = faults
        self.is_open = not faults.blocked and not faults.latency_ms
        for waiter in self._waiters:
            tasks.fulfil(waiter)
        for connection in list(self._connections):
            connection.on_change()

    def close(self) -> None:
        """Open all gates for good, so that what was closed behind them is closed indeed."""
        self.set(NO_FAULTS)

    def blocks(self, address: Address) -> bool:
        return bool(self.faults.blocked) and self._nodes.get(address) in self.faults.blocked

    def latency_ms(self, address: Address) -> int:
        node = self._nodes.get(address)
        return 0 if node is None else self.faults.latency_ms.get(node, 0)

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
    ) -> "GatedConnection":
        address = host, port
        deadline_ms = self._timers.now_ms() + timeout_ms
        await self._pass(address, deadline_ms)
        left_ms = max(1, deadline_ms - self._timers.now_ms())
        inner = await self._network.connect(
            host, port, timeout_ms=left_ms, correlation_of=correlation_of, tls=tls
        )
        connection = GatedConnection(self, inner, address, self._timers)
        self._connections[connection] = None
        return connection

    def soon(self, work: Callable[[], None]) -> None:
        self._network.soon(work)

    def forget(self, connection: "GatedConnection") -> None:
        self._connections.pop(connection, None)

    async def _pass(self, address: Address, deadline_ms: int) -> None:
        """Returns when the latency is over and the gate is open; PeerTimedOut if it is too late."""
        latency_ms = self.latency_ms(address)
        if latency_ms:
            await self._wait(self._timers.now_ms() + latency_ms)
        while self.blocks(address):
            if self._timers.now_ms() >= deadline_ms:
                raise PeerTimedOut(f"{address[0]}:{address[1]} did not answer to connecting")
            await self._wait(deadline_ms)

    async def _wait(self, until_ms: int) -> None:
        """Until that time or until the faults change."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self._timers.add(until_ms, lambda: tasks.fulfil(woken))
        self._waiters[woken] = None
        try:
            await woken
        finally:
            del self._waiters[woken]
            timer.cancel()


class Pending:
    """A request on its way out, or its answer on its way in."""

    __slots__ = ("buffers", "correlation_id", "deadline_ms", "on_outcome", "ready_ms", "timer")

    def __init__(self, buffers: bytes, ready_ms: int) -> None:
        self.buffers = buffers
        self.ready_ms = ready_ms
        self.deadline_ms = 0
        self.correlation_id: int | None = None
        self.on_outcome: OnOutcome | None = None
        """None: it has no answer, or was told."""
        self.timer: Timer | None = None


class GatedConnection:
    """A connection to a peer, behind the gate."""

    __slots__ = ("_address", "_closed", "_gate", "_held", "_inner", "_outgoing", "_timers", "_wake")

    def __init__(
        self,
        gate: GatedNetwork,
        inner: FrameConnection,
        address: Address,
        timers: TimerWheel,
    ) -> None:
        self._gate = gate
        self._inner = inner
        self._address = address
        self._timers = timers
        self._outgoing: deque[Pending] = deque()
        self._held: deque[tuple[Pending, Outcome]] = deque()
        self._wake: Timer | None = None
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """That the other end has closed is not heard through a cut wire."""
        return self._closed or (self._inner.is_closed and not self._gate.blocks(self._address))

    def send(
        self,
        buffers: Sequence[Buffer],
        on_outcome: OnOutcome,
        *,
        timeout_ms: int,
        correlation_id: int | None = None,
    ) -> None:
        if self._closed:
            raise ConnectionClosed(f"{self._name}: closed by us")
        if self._gate.is_open and not self._outgoing:  # as good as always
            self._inner.send(
                buffers, on_outcome, timeout_ms=timeout_ms, correlation_id=correlation_id
            )
            return
        deadline_ms = self._timers.now_ms() + timeout_ms
        ready_ms = self._timers.now_ms() + self._gate.latency_ms(self._address)
        pending = Pending(b"".join(buffers), ready_ms)
        pending.correlation_id = correlation_id
        self._expect(pending, on_outcome, deadline_ms)
        self._outgoing.append(pending)
        self._send_ready()

    def _expect(self, pending: Pending, on_outcome: OnOutcome, deadline_ms: int) -> None:
        """At its deadline it is told, whatever the gate holds back."""
        timeout_ms = deadline_ms - self._timers.now_ms()
        late = RequestTimedOut(f"{self._name} did not answer within {timeout_ms} ms")
        pending.on_outcome = on_outcome
        pending.deadline_ms = deadline_ms
        pending.timer = self._timers.add(deadline_ms, lambda: _settle(pending, late))

    def post(self, buffers: Sequence[Buffer]) -> None:
        if self._closed:
            raise ConnectionClosed(f"{self._name}: closed by us")
        ready_ms = self._timers.now_ms() + self._gate.latency_ms(self._address)
        self._outgoing.append(Pending(b"".join(buffers), ready_ms))
        self._send_ready()

    def close(self) -> None:
        """The peer of a cut wire does not hear of it before the wire is whole again."""
        if self._closed:
            return
        self._closed = True
        waiting = [*self._outgoing, *(pending for pending, _ in self._held)]
        self._outgoing.clear()
        self._held.clear()
        for pending in waiting:
            _settle(pending, ConnectionClosed(f"{self._name}: closed by us"))
        self.on_change()

    def on_change(self) -> None:
        """The faults are others now. What was asked while nothing was broken passed without us;
        its answers do not, from now on."""
        if not self._gate.is_open:
            self._inner.intercept(self._held_back)
        if self._gate.blocks(self._address):
            return
        if self._closed:
            self._gate.forget(self)
            self._inner.close()
            return
        while self._held:
            _settle(*self._held.popleft())
        self._send_ready()

    @property
    def _name(self) -> str:
        return f"{self._address[0]}:{self._address[1]}"

    def _send_ready(self) -> None:
        """In order, each after its latency. Who gave up has not sent."""
        while self._outgoing and not self._gate.blocks(self._address):
            pending = self._outgoing[0]
            if pending.ready_ms > self._timers.now_ms():
                self._plan(pending.ready_ms)
                return
            self._outgoing.popleft()
            if pending.timer is None:
                self._inner.post([pending.buffers])
            elif pending.on_outcome is not None:
                self._send(pending)

    def _plan(self, ready_ms: int) -> None:
        if self._wake is None or not self._wake.pending:
            self._wake = self._timers.add(ready_ms, self._send_ready)

    def _send(self, pending: Pending) -> None:
        left_ms = max(1, pending.deadline_ms - self._timers.now_ms())
        settle = partial(_settle, pending)
        try:
            self._inner.send(
                [pending.buffers],
                self._held_back(settle, pending.deadline_ms),
                timeout_ms=left_ms,
                correlation_id=pending.correlation_id,
            )
        except NetworkError as error:
            settle(error)

    def _held_back(self, on_outcome: OnOutcome, deadline_ms: int) -> OnOutcome:
        return partial(self._on_answered, on_outcome, deadline_ms)

    def _on_answered(self, on_outcome: OnOutcome, deadline_ms: int, outcome: Outcome) -> None:
        is_late = isinstance(outcome, RequestTimedOut)
        if self._closed or is_late or not self._gate.blocks(self._address):
            on_outcome(outcome)
            return
        held = Pending(b"", 0)
        self._expect(held, on_outcome, deadline_ms)
        self._held.append((held, kept(outcome) if isinstance(outcome, memoryview) else outcome))


def _settle(pending: Pending, outcome: Outcome) -> None:
    on_outcome, pending.on_outcome = pending.on_outcome, None
    if on_outcome is None:
        return
    if pending.timer is not None:
        pending.timer.cancel()
    on_outcome(outcome)


if TYPE_CHECKING:
    _PORT: type[Network] = GatedNetwork  # the type checker compares them
    _CONNECTION: type[RequestConnection] = GatedConnection
