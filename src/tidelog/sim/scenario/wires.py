"""The network of a story: production's frames between processes, one at a time.

`StoryNetwork` is the `Network` port of one process. A frame arrives in the moment in which it is
sent, unless a gate keeps it: then it stays on the wire until the story delivers it, loses it or
puts another one in its place. A cut breaks the connections of two processes and lets them make no
others. A killed process resets its connections; a machine without power says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tidelog.host.ports import (
    Buffer,
    CloseReason,
    ConnectionClosed,
    FileRange,
    MakeTlsContext,
    Network,
    NetworkError,
    OnOutcome,
    PeerConnection,
    PeerRefused,
    PeerReset,
    PeerTimedOut,
    PeerUnreachable,
    RequestHandler,
    RequestTimedOut,
)
from tidelog.host.timers import LoopDriver, Timer, TimerWheel, pause
from tidelog.sim.kernel import WORLD, Kernel
from tidelog.sim.nodes.clock import MachineClock
from tidelog.sim.nodes.loop import VirtualLoop
from tidelog.wire.protocol import (
    Message,
    RequestHeader,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    read_request_header,
)

TURNS_OF_A_FRAME = 10
"""No time passes on the way, but every process has done what it had to do beside its loop."""

Address = tuple[str, int]
OnConnection = Callable[[PeerConnection], RequestHandler]
CLIENT = WORLD
"""Clients of a story are not processes: they belong to the world."""


class Gate(Protocol):
    """What a story does with frames on their way. True: the frame stays where it is."""

    def keeps_request(self, question: Question) -> bool: ...
    def keeps_answer(self, question: Question) -> bool: ...
    def outlives_cut(self, line: Line) -> bool:
        """Whether frames of this connection wait for the end of a cut, instead of being lost."""
        ...


class Question:
    """A request with its answer, on their way between two processes."""

    __slots__ = (
        "_timer",
        "answer_frame",
        "frame",
        "header",
        "is_first",
        "is_open",
        "line",
        "on_settled",
    )

    def __init__(self, line: Line, frame: bytes, on_outcome: OnOutcome | None) -> None:
        self.line = line
        self.frame = frame
        self.header: RequestHeader = read_request_header(frame)[0]
        self.answer_frame = b""
        self.is_open = True
        self.is_first = False
        """On its connection."""
        self.on_settled = on_outcome
        self._timer: Timer | None = None

    @property
    def source(self) -> int:
        return self.line.source

    @property
    def target(self) -> int:
        return self.line.target

    def request(self) -> Message:
        return decode_request(self.frame)[1]

    def answer(self) -> Message:
        return decode_response(self.answer_frame, self.header.api_key, self.header.api_version)[1]

    def ask_instead(self, request: Message) -> None:
        self.frame = _joined(encode_request(self.header, request))

    def answer_instead(self, answer: Message) -> None:
        correlation_id, version = self.header.correlation_id, self.header.api_version
        self.answer_frame = _joined(encode_response(correlation_id, answer, version))

    def expire_after(self, wheel: TimerWheel, timeout_ms: int) -> None:
        self._timer = wheel.after(timeout_ms, lambda: self.settle(RequestTimedOut("no answer")))

    def settle(self, outcome: NetworkError | None = None) -> None:
        """The asker hears the answer, or why there is none. Once."""
        if not self.is_open:
            return
        self.is_open = False
        self.line.forget(self)
        if self._timer is not None:
            self._timer.cancel()
        if self.on_settled is not None:
            self.on_settled(outcome or memoryview(bytearray(self.answer_frame)))

    # -- the slot of the answer, for the process that was asked

    def take_answer(self, parts: Sequence[Buffer | FileRange]) -> None:
        self.answer_frame = _joined(parts)
        self.line.wires.carry_answer(self)


class Slot:
    __slots__ = ("_question",)

    def __init__(self, question: Question) -> None:
        self._question = question

    def answer(self, parts: Sequence[Buffer | FileRange]) -> None:
        self._question.take_answer(parts)

    def answer_nothing(self) -> None:
        """It has no answer."""

    def when_it_holds_up(self, call: Callable[[], None]) -> None:
        """Nothing does: a story hands out answers one by one."""


class Line:
    """A connection, as the process that asked for it sees it."""

    __slots__ = (
        "_open",
        "_server",
        "address",
        "asker",
        "handler",
        "inbox",
        "is_closed",
        "last_key",
        "port",
        "wires",
    )

    def __init__(
        self, wires: Wires, asker: StoryNetwork | None, address: Address, port: Port | None
    ) -> None:
        self.wires = wires
        self.address = address
        self.port = port
        """Who listens at the other end; None if nobody does."""
        self.is_closed = False
        self.handler: RequestHandler | None = None
        self.last_key = -1
        """The API that was last asked for here."""
        self.inbox: list[Question] | None = None
        """Requests that came while the other end takes none."""
        self.asker = asker
        self._server = ServerEnd(self)
        self._open: dict[Question, None] = {}

    @property
    def source(self) -> int:
        return CLIENT if self.asker is None else self.asker.owner

    @property
    def target(self) -> int:
        return self.wires.owners[self.address[0]]

    # -- RequestConnection

    def send(
        self,
        buffers: Sequence[Buffer],
        on_outcome: OnOutcome,
        *,
        timeout_ms: int,
        correlation_id: int | None = None,
    ) -> None:
        question = self.ask(_joined(buffers), on_outcome)
        assert self.asker is not None, "clients of a story have no clock"
        question.expire_after(self.asker.wheel, timeout_ms)

    def post(self, buffers: Sequence[Buffer]) -> None:
        self.ask(_joined(buffers), None)

    def ask(self, frame: bytes, on_outcome: OnOutcome | None) -> Question:
        if self.is_closed:
            raise ConnectionClosed("the connection has ended")
        question = Question(self, frame, on_outcome)
        question.is_first = self.last_key < 0
        self.last_key = question.header.api_key
        self._open[question] = None
        self.wires.carry_request(question)
        return question

    def close(self) -> None:
        self.end(ConnectionClosed("closed by us"), CloseReason.CLOSED_BY_PEER)

    # -- what becomes of it

    def forget(self, question: Question) -> None:
        self._open.pop(question, None)

    def accept(self) -> None:
        assert self.port is not None, "nobody listens"
        self.handler = self.port.on_connection(self._server)

    def receive(self, question: Question) -> None:
        """A request arrives at the process that is asked."""
        if self.inbox is not None:
            self.inbox.append(question)
        elif self.handler is not None:
            self.handler.on_request(memoryview(bytearray(question.frame)), Slot(question))

    def end(self, error: NetworkError, reason: CloseReason) -> None:
        """Both ends hear of it."""
        self.end_for_asker(error)
        self.wires.end_for_server(self, reason)

    def end_for_asker(self, error: NetworkError) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        for question in list(self._open):
            self.wires.lose(question, error)

    def hang_up(self, reason: CloseReason) -> None:
        """The process that was asked hears that the connection has ended."""
        handler, self.handler = self.handler, None
        self.wires.lines.pop(self, None)
        if handler is not None:
            handler.on_closed(reason)

    @property
    def is_served(self) -> bool:
        """Whether the process that accepted it still runs."""
        return self.port is not None and self.port.network.loop.alive

    def touches(self, network: StoryNetwork) -> bool:
        return network is self.asker or (self.port is not None and network is self.port.network)

    def asked_by(self, network: StoryNetwork) -> bool:
        return network is self.asker


class ServerEnd:
    """The same connection, as the process that accepted it sees it: a `PeerConnection`."""

    __slots__ = ("_line", "trusted")

    def __init__(self, line: Line) -> None:
        self._line = line
        self.trusted = False

    @property
    def peer(self) -> str:
        return f"node-{self._line.source}"

    @property
    def certificate(self) -> None:
        return None

    @property
    def congested(self) -> bool:
        return False

    @property
    def allowance_bytes(self) -> int:
        return 1 << 30

    def pause(self) -> None:
        self._line.inbox = self._line.inbox or []

    def resume(self) -> None:
        waiting, self._line.inbox = self._line.inbox or [], None
        for question in waiting:
            self._line.receive(question)

    def fail(self, error: Exception) -> None:
        raise error

    def close(self) -> None:
        self._line.end(ConnectionClosed("closed by peer"), CloseReason.CLOSED_BY_US)


class Port:
    """An open listener."""

    __slots__ = ("address", "network", "on_connection")

    def __init__(self, network: StoryNetwork, address: Address, on_connection: OnConnection):
        self.network = network
        self.address = address
        self.on_connection = on_connection

    @property
    def port(self) -> int:
        return self.address[1]

    async def stop(self, *, timeout_ms: int) -> int:
        self.network.wires.ports.pop(self.address, None)
        return 0


class Wires:
    """Every process and connection of a scene."""

    def __init__(self, kernel: Kernel, gate: Gate) -> None:
        self.kernel = kernel
        self._gate = gate
        self.ports: dict[Address, Port] = {}
        self.lines: dict[Line, None] = {}
        self.owners: dict[str, int] = {}
        """Whose machine has this name."""
        self._dark: dict[str, None] = {}
        """Machines without power."""
        self._cuts: dict[tuple[int, int], None] = {}
        self.on_turn: Callable[[], None] = _nothing
        """Called again and again while something is under way."""

    # -- what a story does to it

    def cut(self, one: int, other: int) -> None:
        self._cuts[_pair(one, other)] = None
        for line in list(self.lines):
            if _pair(line.source, line.target) != _pair(one, other):
                continue
            if not self._gate.outlives_cut(line):
                line.end(PeerReset("the network broke"), CloseReason.RESET_BY_PEER)

    def heal(self, owner: int | None = None) -> None:
        """Of this process, or of all."""
        self._cuts = {pair: None for pair in self._cuts if owner is not None and owner not in pair}

    def lag_us(self, owner: int) -> int:
        """How much later than others of the same millisecond its timers fire."""
        return 0

    def connects(self, one: int, other: int) -> bool:
        return _pair(one, other) not in self._cuts

    def on_process_gone(self, network: StoryNetwork, *, power_lost: bool) -> None:
        name = next(name for name, owner in self.owners.items() if owner == network.owner)
        self.ports = {a: port for a, port in self.ports.items() if port.network is not network}
        if power_lost:
            self._dark[name] = None
            return
        for line in list(self.lines):
            if line.asked_by(network):
                line.is_closed = True
                self.end_for_server(line, CloseReason.RESET_BY_PEER)
            elif line.touches(network):
                self.lines.pop(line, None)
                line.end_for_asker(PeerReset("its process is gone"))

    def end_for_server(self, line: Line, reason: CloseReason) -> None:
        if line.port is not None:
            self.perform(line.port.network, lambda: line.hang_up(reason))

    def boot(self, name: str) -> None:
        """Power is back."""
        self._dark.pop(name, None)

    def reset_ghosts(self, owner: int) -> None:
        """Peers send again what a machine without power has not confirmed, and it does not know
        their connections any more."""
        for line in list(self.lines):
            if line.target == owner and line.port is not None and not line.is_served:
                self.lines.pop(line)
                line.end_for_asker(PeerReset("unknown connection"))

    # -- carrying

    def perform(self, network: StoryNetwork, work: Callable[[], object]) -> None:
        """As soon as everything is done that a process can do alone, if this one still runs."""
        self._wait((TURNS_OF_A_FRAME, network, work))

    def perform_sooner(self, network: StoryNetwork, work: Callable[[], object]) -> None:
        """The first frame of a connection was sent a turn later than it could have been."""
        self._wait((TURNS_OF_A_FRAME - 1, network, work))

    def _wait(self, order: tuple[int, StoryNetwork, Callable[[], object]]) -> None:
        turns, network, work = order
        if not turns:
            self.on_turn()
        if turns:
            self.kernel.call_in(0, WORLD, self._wait, (turns - 1, network, work))
        elif network.loop.alive:
            self.kernel.call_in(0, network.owner, network.loop.perform, work)

    def carry_request(self, question: Question) -> None:
        if not self._gate.keeps_request(question):
            self.deliver_request(question)

    def deliver_request(self, question: Question) -> None:
        """Also one that was on its way when its connection ended."""
        line = question.line
        if line.port is None or not line.is_served:
            self.lose(question)
            return
        if line.handler is None and line.is_closed:
            self.perform(line.port.network, line.accept)
        self.perform(line.port.network, lambda: line.receive(question))

    def lose(self, question: Question, error: NetworkError | None = None) -> None:
        """The asker hears that its connection broke, or what else happened."""
        asker, reason = question.line.asker, error or PeerReset("the connection broke")
        if asker is None:
            question.settle(reason)
        else:
            self.perform(asker, lambda: question.settle(reason))

    def carry_answer(self, question: Question) -> None:
        if question.line.is_served and not self._gate.keeps_answer(question):
            self.deliver_answer(question)

    def deliver_answer(self, question: Question) -> None:
        asker = question.line.asker
        if asker is None:
            question.settle()
        else:
            self.perform(asker, question.settle)

    def open_line(self, asker: StoryNetwork | None, address: Address) -> Line:
        """Connect, now. NetworkError if that cannot be."""
        source = CLIENT if asker is None else asker.owner
        host, _ = address
        if host not in self.owners:
            raise PeerUnreachable(f"there is no {host}")
        if not self.connects(source, self.owners[host]):
            raise PeerUnreachable(f"no way to {host}")
        if host in self._dark:
            raise PeerTimedOut(f"{host} does not answer")
        port = self.ports.get(address)
        if port is None:
            raise PeerRefused(f"nobody listens at {address}")
        line = Line(self, asker, address, port)
        self.lines[line] = None
        self.perform(port.network, line.accept)
        return line

    def ask(self, address: Address, frame: bytes, on_outcome: OnOutcome | None) -> Question:
        """A client's request, on a connection of its own."""
        return self.open_line(None, address).ask(frame, on_outcome)


class Late:
    """A loop whose timers fire in an order between processes that the story knows."""

    __slots__ = ("_loop", "_owner", "_wires")

    def __init__(self, loop: VirtualLoop, wires: Wires, owner: int) -> None:
        self._loop = loop
        self._wires = wires
        self._owner = owner

    def call_later(self, delay: float, callback: Callable[[], object]) -> object:
        lag_us = self._wires.lag_us(self._owner)
        due_us = self._wires.kernel.now_us + round(delay * 1_000_000)
        at_us = due_us - due_us % 1000 + lag_us if lag_us else due_us
        delay_us = max(at_us - self._wires.kernel.now_us, 1 if lag_us else 0)
        return self._loop.call_later(delay_us / 1_000_000, callback)


class StoryNetwork:
    """The `Network` port of one process."""

    __slots__ = ("_driver", "loop", "owner", "wheel", "wires")

    def __init__(self, wires: Wires, owner: int, loop: VirtualLoop, clock: MachineClock) -> None:
        self.wires = wires
        self.owner = owner
        self.loop = loop
        self.wheel = TimerWheel(clock)
        driven: Any = Late(loop, wires, owner)  # as much of a loop as it needs
        self._driver = LoopDriver(self.wheel, driven)

    async def listen(
        self,
        host: str,
        port: int,
        on_connection: OnConnection,
        *,
        privileged: bool = False,
        tls: MakeTlsContext | None = None,
    ) -> Port:
        assert tls is None, "stories are told in plain text"
        opened = self.wires.ports[host, port] = Port(self, (host, port), on_connection)
        return opened

    async def connect(
        self,
        host: str,
        port: int,
        *,
        timeout_ms: int,
        correlation_of: Callable[[memoryview], int] | None = None,
        tls: MakeTlsContext | None = None,
    ) -> Line:
        assert tls is None, "stories are told in plain text"
        try:
            return self.wires.open_line(self, (host, port))
        except PeerTimedOut:
            await pause(self.wheel, timeout_ms)
            raise

    def soon(self, work: Callable[[], None]) -> None:
        self.loop.call_soon(work)


if TYPE_CHECKING:
    _PORT: type[Network] = StoryNetwork  # the type checker compares them


def _pair(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)


def _joined(parts: Sequence[Buffer | FileRange]) -> bytes:
    return b"".join(
        bytes(part) if isinstance(part, bytes | bytearray | memoryview) else part.read()
        for part in parts
    )


def _nothing() -> None:
    """Nobody looks."""
