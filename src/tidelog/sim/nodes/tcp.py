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
- A peer that does not read fills its window, and then the sender's buffer. A window can be made
  small, so that everything trickles, or closed.
- A process can leave connections waiting that its operating system has accepted.
- What is sent on one connection can be held back while the others of its machines go on.
- A machine can be slow to answer those who connect.
- A connection can be torn: half of the next write arrives, and then a reset at both ends.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from tidelog.sim.kernel import WORLD, Kernel
from tidelog.sim.nodes.held_connections import HeldConnections
from tidelog.sim.nodes.transport import Address, VirtualTransport

if TYPE_CHECKING:
    from tidelog.sim.nodes.loop import VirtualLoop

WINDOW_BYTES = 256 * 1024
"""On their way or received and not read, before the sender has to wait."""
SYN_AGAIN_US = 1_000_000
LEAST_DELAY_US = 60

ProtocolFactory = Callable[[], asyncio.BaseProtocol]
Connected = tuple[VirtualTransport, asyncio.BaseProtocol]


class Machine:
    """A computer on the network. Its owner number is that of its events in the kernel."""

    __slots__ = (
        "_holding",
        "_waiting",
        "ghosts",
        "handshake_us",
        "internet",
        "listening",
        "name",
        "owner",
        "transports",
        "up",
        "window_bytes",
    )

    def __init__(self, internet: "Internet", name: str, owner: int) -> None:
        self.internet = internet
        self.name = name
        self.owner = owner
        self.up = True
        self.listening: dict[int, Listening] = {}
        self.transports: dict[VirtualTransport, None] = {}
        self.ghosts: list[VirtualTransport] = []
        """Ends elsewhere of connections that this machine forgot when it lost power."""
        self.window_bytes = WINDOW_BYTES
        self._waiting: list[tuple[Listening, VirtualTransport]] | None = None
        """Connections that nobody has taken; None: they are taken at once."""
        self._holding: dict[HeldConnections, None] = {}
        self.handshake_us = 0
        """So much longer than usual others who connect wait for an answer, or a refusal."""

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

    def take(self, listening: "Listening", transport: VirtualTransport) -> None:
        """The process takes a connection that its operating system has made, or lets it wait."""
        if self._waiting is None:
            transport.open(listening.make_protocol())
        else:
            self._waiting.append((listening, transport))

    # -- faults

    def let_wait(self) -> None:
        """New connections are accepted and not served."""
        self._waiting = [] if self._waiting is None else self._waiting

    def serve_waiting(self, *, drop: bool) -> None:
        """Those that waited are served late, or dropped."""
        waiting, self._waiting = self._waiting or [], None
        for listening, transport in waiting:
            if drop:
                transport.abort()
            elif not transport.is_gone:
                self.take(listening, transport)

    def hold(self, held: HeldConnections) -> None:
        """Keep back what is sent on these connections, and on those that will be made."""
        self._holding[held] = None
        for transport in self.transports:
            held.consider(transport)

    def release(self, held: HeldConnections) -> None:
        del self._holding[held]
        held.release()

    def on_opened(self, transport: VirtualTransport) -> None:
        """Something is written to a new connection."""
        for held in self._holding:
            held.consider(transport)

    def set_window(self, window_bytes: int) -> None:
        """How much it takes before it has read what came; 0: nothing."""
        self.window_bytes = window_bytes
        for transport in self.transports:
            transport.open_window()


class Internet:
    """The wires between machines: how long they take, and which of them are cut."""

    __slots__ = (
        "_bits",
        "_clogged",
        "_cuts",
        "_kernel",
        "_late_us",
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
        self._clogged: dict[tuple[Machine, Machine], int] = {}
        self._late_us: dict[tuple[Machine, Machine], int] = {}
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

    def clog(self, source: Machine, target: Machine, factor: int) -> None:
        """Packets from one to the other take up to so many times longer; 1 ends that."""
        self._clogged.pop((source, target), None)
        if factor > 1:
            self._clogged[source, target] = factor

    def delay(self, source: Machine, target: Machine, late_us: int) -> None:
        """Packets from one to the other take so much longer than usual; 0 ends that."""
        self._late_us.pop((source, target), None)
        if late_us:
            self._late_us[source, target] = late_us

    def tear_connections(self, machine: Machine) -> int:
        """Half of what either end of its connections writes next arrives, then a reset."""
        for transport in machine.transports:
            transport.tear_next_write()
            transport.peer.tear_next_write()
        return len(machine.transports)

    def reset_all(self, machine: Machine) -> int:
        """Every connection of this machine breaks, whoever is at the other end."""
        broken = list(machine.transports)
        for transport in broken:
            transport.be_reset()
            transport.peer.be_reset()
        return len(broken)

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
        if self._clogged:
            delay_us *= 1 + self.entropy.randrange(self._clogged.get((source, target), 1))
        if self._late_us:
            delay_us += self._late_us.get((source, target), 0)
        return delay_us

    def stall(self, transport: VirtualTransport) -> None:
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
            refusal = ConnectionRefusedError(111, f"nobody listens on {host}:{port}")
            self._tell(attempt, refusal, _handshake_us(source, target))
        else:
            self._establish(attempt, target.listening[port])

    def _tell(self, attempt: "Attempt", error: OSError, late_us: int = 0) -> None:
        delay_us = LEAST_DELAY_US + self._bits(8) + late_us
        self._kernel.call_in(delay_us, attempt.machine.owner, attempt.on_failed, error)

    def _establish(self, attempt: "Attempt", listening: "Listening") -> None:
        machine = attempt.machine
        ours = VirtualTransport(self._kernel, machine, attempt.loop, attempt.address)
        source = (machine.name, 1024 + self._bits(14))
        theirs = VirtualTransport(self._kernel, listening.machine, listening.loop, source)
        ours.peer, theirs.peer = theirs, ours
        self._kernel.call_in(0, listening.machine.owner, listening.accept, theirs)
        delay_us = self.delay_us(listening.machine, machine)
        delay_us += _handshake_us(machine, listening.machine)
        self._kernel.call_in(delay_us, machine.owner, attempt.on_established, ours)


def _handshake_us(source: Machine, target: Machine) -> int:
    """A machine that is slow to answer others reaches itself as fast as ever."""
    return 0 if source is target else target.handshake_us


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

    def on_established(self, transport: VirtualTransport) -> None:
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
        return "0.0.0.0", self.port  # noqa: S104 - nobody but simulated machines can reach it

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

    async def wait_closed(self) -> None:
        """Nothing is left to wait for."""

    def accept(self, transport: VirtualTransport) -> None:
        self.machine.take(self, transport)

    def make_protocol(self) -> asyncio.BaseProtocol:
        return self._factory()
