"""TCP between simulated machines, at the level of bytes.

Production's own network code runs on top: it gets transports of these connections from its event
loop. What TCP promises holds: bytes arrive once and in order, or the connection ends. Everything
else is drawn or broken on purpose:

- A segment takes its time. Some are split, so frames arrive in halves.
- A cut holds what was sent until it heals, as retransmission does.
- A killed process closes or resets its connections. A machine that lost power says nothing; when
  it is back, it resets what it does not know.
- Connecting to a machine that nobody listens on is refused. Connecting to a paused process works:
  its operating system accepts.
- A peer that does not read fills its window, and then the sender's buffer.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.sim.kernel import WORLD, Kernel

if TYPE_CHECKING:
    from tidelog.sim.nodes.loop import VirtualLoop

WINDOW_BYTES = 256 * 1024
"""On their way or received and not read, before the sender has to wait."""
SYN_AGAIN_US = 1_000_000
LEAST_DELAY_US = 60

ProtocolFactory = Callable[[], asyncio.BaseProtocol]
Connected = tuple["VirtualTransport", asyncio.BaseProtocol]
Address = tuple[str, int]


class Machine:
    """A computer on the network. Its owner number is that of its events in the kernel."""

    __slots__ = ("ghosts", "internet", "listening", "name", "owner", "transports", "up")

    def __init__(self, internet: "Internet", name: str, owner: int) -> None:
        self.internet = internet
        self.name = name
        self.owner = owner
        self.up = True
        self.listening: dict[int, Listening] = {}
        self.transports: dict[VirtualTransport, None] = {}
        self.ghosts: list[VirtualTransport] = []
        """Ends elsewhere of connections that this machine forgot when it lost power."""

    def on_process_gone(self, *, power_lost: bool) -> None:
        """Its connections end: at once for their peers, or in silence."""
        self.listening.clear()
        transports, self.transports = self.transports, {}
        for transport in transports:
            transport.forsake(silently=power_lost)
        self.up = not power_lost

    def boot(self) -> None:
        """Power is back. Peers that sent something meanwhile send it again, and are reset."""
        self.up = True
        ghosts, self.ghosts = self.ghosts, []
        for transport in ghosts:
            transport.on_ghost_back()


class Internet:
    """The wires between machines: how long they take, and which of them are cut."""

    __slots__ = (
        "_bits",
        "_cuts",
        "_kernel",
        "_machines",
        "_slow",
        "_stalled",
        "_usual_delay_us",
        "entropy",
    )

    def __init__(self, kernel: Kernel, entropy: Random, usual_delay_us: int = 400) -> None:
        self._kernel = kernel
        self._usual_delay_us = usual_delay_us
        self.entropy = entropy
        self._bits = entropy.getrandbits
        self._machines: dict[str, Machine] = {}
        self._cuts: dict[tuple[Machine, Machine], int] = {}
        self._slow: dict[Machine, int] = {}
        self._stalled: dict[VirtualTransport, None] = {}

    def add_machine(self, name: str, owner: int) -> Machine:
        machine = self._machines[name] = Machine(self, name, owner)
        return machine

    # -- faults

    def cut(self, source: Machine, target: Machine) -> None:
        """Nothing gets from one to the other. Cuts add up."""
        self._cuts[source, target] = self._cuts.get((source, target), 0) + 1

    def restore(self, source: Machine, target: Machine) -> None:
        """End one cut; what it held back arrives."""
        left = self._cuts.get((source, target), 0) - 1
        if left > 0:
            self._cuts[source, target] = left
            return
        self._cuts.pop((source, target), None)
        stalled, self._stalled = self._stalled, {}
        for transport in stalled:
            transport.arrive_later()

    def is_cut(self, source: Machine, target: Machine) -> bool:
        return bool(self._cuts) and (source, target) in self._cuts

    def slow_down(self, machine: Machine, factor: int) -> None:
        """Everything to and from this machine takes longer; 1 ends that."""
        self._slow[machine] = factor

    def reset_connections(self, one: Machine, other: Machine) -> int:
        """Something between the two breaks their connections; how many there were."""
        broken = [each for each in one.transports if each.peer.machine is other]
        for transport in broken:
            transport.be_reset()
            transport.peer.be_reset()
        return len(broken)

    # -- time

    def delay_us(self, source: Machine, target: Machine) -> int:
        bits = self._bits(16)
        delay_us = LEAST_DELAY_US + (bits & 1023) * self._usual_delay_us // 1024
        if bits >> 10 == 0:
            delay_us *= 20
        if self._slow:
            delay_us *= max(self._slow.get(source, 1), self._slow.get(target, 1))
        return delay_us

    def stall(self, transport: "VirtualTransport") -> None:
        """A cut keeps something from arriving here."""
        self._stalled[transport] = None

    # -- making connections

    def listen(
        self, machine: Machine, loop: "VirtualLoop", factory: ProtocolFactory, port: int
    ) -> "Listening":
        if port in machine.listening:
            raise OSError(98, f"address already in use: {machine.name}:{port}")
        listening = machine.listening[port] = Listening(machine, loop, factory, port)
        return listening

    async def connect(
        self, machine: Machine, loop: "VirtualLoop", factory: ProtocolFactory, address: Address
    ) -> Connected:
        attempt = Attempt(machine, loop, factory, address)
        delay_us = self._bits(8) + LEAST_DELAY_US
        self._kernel.call_in(delay_us, WORLD, self._on_syn, attempt)
        try:
            return await attempt.future
        except asyncio.CancelledError:
            attempt.given_up = True
            raise

    def _on_syn(self, attempt: "Attempt") -> None:
        """The first packet reaches the other machine, or is sent again."""
        if attempt.given_up or not attempt.loop.alive:
            return
        host, port = attempt.address
        source, target = attempt.machine, self._machines.get(host)
        if target is None:
            self._tell(attempt, OSError(113, f"no route to {host}"))
        elif not target.up or self.is_cut(source, target) or self.is_cut(target, source):
            self._kernel.call_in(SYN_AGAIN_US, WORLD, self._on_syn, attempt)
        elif port not in target.listening:
            self._tell(attempt, ConnectionRefusedError(111, f"nobody listens on {host}:{port}"))
        else:
            self._establish(attempt, target.listening[port])

    def _tell(self, attempt: "Attempt", error: OSError) -> None:
        machine = attempt.machine
        self._kernel.call_in(
            LEAST_DELAY_US + self._bits(8), machine.owner, attempt.on_failed, error
        )

    def _establish(self, attempt: "Attempt", listening: "Listening") -> None:
        machine = attempt.machine
        ours = VirtualTransport(self._kernel, machine, attempt.loop, attempt.address)
        source = (machine.name, 1024 + self._bits(14))
        theirs = VirtualTransport(self._kernel, listening.machine, listening.loop, source)
        ours.peer, theirs.peer = theirs, ours
        self._kernel.call_in(0, listening.machine.owner, listening.accept, theirs)
        delay_us = self.delay_us(listening.machine, machine)
        self._kernel.call_in(delay_us, machine.owner, attempt.on_established, ours)


class Attempt:
    """A connection that somebody wants."""

    __slots__ = ("_factory", "address", "future", "given_up", "loop", "machine")

    def __init__(
        self, machine: Machine, loop: "VirtualLoop", factory: ProtocolFactory, address: Address
    ) -> None:
        self.machine = machine
        self.loop = loop
        self._factory = factory
        self.address = address
        self.future: asyncio.Future[Connected] = loop.create_future()
        self.given_up = False

    def on_failed(self, error: OSError) -> None:
        if not self.future.done():
            self.loop.perform(lambda: self.future.set_exception(error))

    def on_established(self, transport: "VirtualTransport") -> None:
        if self.given_up or self.future.done():
            transport.abort()
            return
        protocol = self._factory()
        transport.open(protocol)
        self.loop.perform(lambda: self.future.set_result((transport, protocol)))


class _Name(NamedTuple):
    """As much of a listening socket as `asyncio.Server` shows."""

    host: str
    port: int

    def getsockname(self) -> Address:
        return self.host, self.port

    def fileno(self) -> int:
        return self.port


class Listening:
    """An open port: what `loop.create_server` returns."""

    __slots__ = ("_factory", "loop", "machine", "port")

    def __init__(
        self, machine: Machine, loop: "VirtualLoop", factory: ProtocolFactory, port: int
    ) -> None:
        self.machine = machine
        self.loop = loop
        self._factory = factory
        self.port = port

    @property
    def sockets(self) -> list[_Name]:
        return [_Name(self.machine.name, self.port)]

    def close(self) -> None:
        self.machine.listening.pop(self.port, None)

    def accept(self, transport: "VirtualTransport") -> None:
        """The process takes a connection that its operating system has made."""
        transport.open(self._factory())


class Segment(NamedTuple):
    due_us: int
    data: bytes
    """Empty: the sender has nothing more to say."""


class VirtualTransport(asyncio.Transport):
    """One end of a connection."""

    peer: "VirtualTransport"

    def __init__(
        self, kernel: Kernel, machine: Machine, loop: "VirtualLoop", peername: Address
    ) -> None:
        super().__init__({"peername": peername})
        self._kernel = kernel
        self._loop = loop
        self.machine = machine
        self._protocol: Any = None
        self._incoming: deque[Segment] = deque()
        self._last_due_us = 0
        self._received = bytearray()
        self._ended = False
        """The peer has nothing more to say, and we have read it all up to there."""
        self._reset = False
        """A reset is on its way to us."""
        self._paused = False
        self._unsent: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._closing = False
        self._gone = False
        """The protocol has been told, or its process is dead."""
        machine.transports[self] = None

    # -- what protocols use

    def is_closing(self) -> bool:
        return self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high == 0, f"only the limits that are used: {high}"

    def get_write_buffer_size(self) -> int:
        return self._unsent_bytes

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._kernel.call_in(0, self.machine.owner, self._feed, None)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writelines([data])

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        data = b"".join(list_of_data)
        if self._closing or not data:
            return
        if self._unsent or self.peer.unread_bytes >= WINDOW_BYTES:
            self._unsent.append(data)
            self._unsent_bytes += len(data)
            if len(self._unsent) == 1:
                self._protocol.pause_writing()
        else:
            self._transmit(data)

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        if not self._unsent:
            self._finish()

    def abort(self) -> None:
        if self._gone:
            return
        self._closing = True
        self._drop_unsent()
        self.peer.be_reset()
        self._loop.call_soon(self._lose, None)

    # -- sending

    def _transmit(self, data: bytes) -> None:
        entropy = self.machine.internet.entropy
        if len(data) > 1 and entropy.getrandbits(5) == 0:
            middle = 1 + entropy.randrange(len(data) - 1)
            self._send_segment(data[:middle])
            data = data[middle:]
        self._send_segment(data)

    def _send_segment(self, data: bytes) -> None:
        peer = self.peer
        if peer._gone:
            self._meet_nobody()
            return
        delay_us = self.machine.internet.delay_us(self.machine, peer.machine)
        due_us = max(peer._last_due_us, self._kernel.now_us + delay_us)
        peer._last_due_us = due_us
        peer._incoming.append(Segment(due_us, data))
        self._kernel.call_at(due_us, peer.machine.owner, peer._arrive, None)

    def _meet_nobody(self) -> None:
        """Nobody has the other end any more: its machine says so, once it is up."""
        if self.peer.machine.up:
            self.be_reset()
        else:
            self.peer.machine.ghosts.append(self)

    def on_ghost_back(self) -> None:
        if not self._gone:
            self.be_reset()

    def _finish(self) -> None:
        """Everything is sent. Bytes that nobody will read make it a reset."""
        if self._received:
            self.peer.be_reset()
        else:
            self._send_segment(b"")
        self._loop.call_soon(self._lose, None)

    def _on_window(self, _: None) -> None:
        """The peer has read: send what fits, as much as its window takes."""
        if self._gone or not self._unsent:
            return
        while self._unsent and self.peer.unread_bytes < WINDOW_BYTES:
            data = self._unsent.popleft()
            self._unsent_bytes -= len(data)
            self._transmit(data)
        if self._unsent:
            return
        if self._closing:
            self._finish()
        else:
            self._loop.perform(self._protocol.resume_writing)

    def _drop_unsent(self) -> None:
        self._unsent.clear()
        self._unsent_bytes = 0

    # -- receiving

    @property
    def unread_bytes(self) -> int:
        return len(self._received) + sum(len(each.data) for each in self._incoming)

    def open(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        self._loop.perform(lambda: protocol.connection_made(self))
        self._arrive(None)

    def arrive_later(self) -> None:
        """A cut has healed: what it held back is sent again."""
        if not self._gone:
            delay_us = self.machine.internet.delay_us(self.peer.machine, self.machine)
            due_us = max(self._kernel.now_us + delay_us, self._last_due_us)
            self._last_due_us = due_us
            self._kernel.call_at(due_us, self.machine.owner, self._arrive, None)

    def _arrive(self, _: None) -> None:
        if self._gone or self._protocol is None:
            return
        if not self._incoming and not self._reset:
            return
        if self.machine.internet.is_cut(self.peer.machine, self.machine):
            self.machine.internet.stall(self)
            return
        if self._reset:
            self._be_reset_now()
            return
        while self._incoming and self._incoming[0].due_us <= self._kernel.now_us:
            data = self._incoming.popleft().data
            self._received += data
            self._ended = self._ended or not data
        self._feed(None)

    def _feed(self, _: None) -> None:
        if self._protocol is not None and not self._gone:
            self._loop.perform(self._hand_over)

    def _hand_over(self) -> None:
        received, protocol = self._received, self._protocol
        had_bytes = len(received)
        while received and not self._paused and not self._closing:
            buffer = protocol.get_buffer(len(received))
            size_bytes = min(len(buffer), len(received))
            buffer[:size_bytes] = received[:size_bytes]
            del received[:size_bytes]
            protocol.buffer_updated(size_bytes)
        if len(received) < had_bytes and self.peer._unsent:
            delay_us = self.machine.internet.delay_us(self.machine, self.peer.machine)
            owner = self.peer.machine.owner
            self._kernel.call_in(delay_us, owner, self.peer._on_window, None)
        if self._ended and not received and not self._closing and not self._paused:
            protocol.eof_received()
            self.close()

    # -- the end

    def be_reset(self) -> None:
        """A reset is sent to this end: it arrives like everything else."""
        if self._gone or self._reset:
            return
        self._reset = True
        delay_us = self.machine.internet.delay_us(self.peer.machine, self.machine)
        self._kernel.call_in(delay_us, self.machine.owner, self._arrive, None)

    def _be_reset_now(self) -> None:
        self._closing = True
        self._drop_unsent()
        self._incoming.clear()
        self._received.clear()
        error = ConnectionResetError(104, "connection reset by peer")
        self._loop.perform(lambda: self._lose(error))

    def _lose(self, error: Exception | None) -> None:
        if self._gone:
            return
        self._gone = True
        self.machine.transports.pop(self, None)
        if self._protocol is not None:
            self._protocol.connection_lost(error)

    def forsake(self, *, silently: bool) -> None:
        """Its process is gone: the operating system ends the connection, if it still can."""
        if self._gone:
            return
        self._gone = True
        if silently:
            if self._incoming:
                self.machine.ghosts.append(self.peer)  # sends it again until somebody answers
            return
        if self._received or self.machine.internet.entropy.getrandbits(1):
            self.peer.be_reset()
        else:
            self._send_segment(b"")
