"""The ends of simulated connections: what asyncio calls transports."""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tidelog.sim.kernel import Kernel
from tidelog.sim.nodes.loop_work import BYTES_PER_US, SEND_US

if TYPE_CHECKING:
    from tidelog.sim.nodes.loop import VirtualLoop
    from tidelog.sim.nodes.tcp import Machine

Address = tuple[str, int]


Segment = tuple[int, bytes | None]
"""When it is due, and what it brings. Empty: the sender has nothing more to say. None: a reset,
after all that came before."""


class VirtualTransport(asyncio.Transport):
    """One end of a connection."""

    peer: "VirtualTransport"

    def __init__(
        self, kernel: Kernel, machine: "Machine", loop: "VirtualLoop", peername: Address
    ) -> None:
        super().__init__({"peername": peername})
        self._kernel = kernel
        self._loop = loop
        self.machine = machine
        self._internet = machine.internet
        self._entropy = machine.internet.entropy
        self._protocol: Any = None
        self._incoming: deque[Segment] = deque()
        self._incoming_bytes = 0
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
        self._torn = False
        """The next write breaks it."""
        self._holds = 0
        """So many faults keep what was sent to us from arriving."""
        self.opening = b""
        """What was written first. It names the client, and so what the connection is for."""
        machine.transports[self] = None

    # -- what protocols use

    def is_closing(self) -> bool:
        """Also when its process is dead: nobody is left who could have closed it."""
        return self._closing or self._gone or not self._loop.alive

    @property
    def is_gone(self) -> bool:
        return self._gone

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """What is unsent makes its protocol wait, however little it is."""

    def get_write_buffer_size(self) -> int:
        return self._unsent_bytes

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        if not self._gone:
            self._kernel.call_in(0, self.machine.owner, self._feed, None)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writelines([data])

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        data = b"".join(list_of_data)
        if self._closing or self._gone or not data:
            return
        if not self.opening:
            self.opening = data
            self.machine.on_opened(self)
        unsent, window_bytes = self._unsent, self.peer.machine.window_bytes
        if not unsent and len(data) <= window_bytes and self.peer.unread_bytes < window_bytes:
            self._transmit(data)  # as good as always
            return
        was_waiting = bool(unsent)
        unsent.append(data)
        self._unsent_bytes += len(data)
        if was_waiting:
            return
        self._send_what_fits()
        if unsent:
            self._protocol.pause_writing()

    def close(self) -> None:
        if self._closing or self._gone:
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

    def _send_what_fits(self) -> None:
        window_bytes = self.peer.machine.window_bytes
        while self._unsent and self.peer.unread_bytes < window_bytes:
            data = self._unsent.popleft()
            if len(data) > window_bytes:
                self._unsent.appendleft(data[window_bytes:])
                data = data[:window_bytes]
            self._unsent_bytes -= len(data)
            self._transmit(data)

    def _transmit(self, data: bytes) -> None:
        self._loop.work.us += SEND_US + len(data) // BYTES_PER_US
        if self._torn:
            self._break_after(data[: len(data) // 2])
            return
        entropy = self._entropy
        if len(data) > 1 and entropy.getrandbits(5) == 0:
            middle = 1 + entropy.randrange(len(data) - 1)
            self._send_segment(data[:middle])
            data = data[middle:]
        self._send_segment(data)

    def tear_next_write(self) -> None:
        self._torn = True

    def _break_after(self, data: bytes) -> None:
        """This much still arrives, then both ends are reset."""
        self._torn = False
        if data:
            self._send_segment(data)
        self._send_segment(None)
        self._drop_unsent()
        self.be_reset()

    def _send_segment(self, data: bytes | None) -> None:
        peer = self.peer
        if peer._gone:
            self._meet_nobody()
            return
        kernel = self._kernel
        delay_us = self._internet.delay_us(self.machine, peer.machine)
        due_us = peer._last_due_us = max(peer._last_due_us, kernel.now_us + delay_us)
        peer._incoming.append((due_us, data))
        if data is not None:
            peer._incoming_bytes += len(data)
        kernel.call_at(due_us, peer.machine.owner, peer._arrive, None)

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
        self._send_what_fits()
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
        return len(self._received) + self._incoming_bytes

    def open(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        self._loop.perform(lambda: protocol.connection_made(self))
        self._arrive(None)

    def arrive_later(self) -> None:
        """A cut has healed: what it held back is sent again."""
        if not self._gone:
            delay_us = self._internet.delay_us(self.peer.machine, self.machine)
            due_us = max(self._kernel.now_us + delay_us, self._last_due_us)
            self._last_due_us = due_us
            self._kernel.call_at(due_us, self.machine.owner, self._arrive, None)

    def _arrive(self, _: None) -> None:
        incoming = self._incoming
        if self._gone or self._protocol is None:
            return
        if self._holds or (not incoming and not self._reset):
            return
        if self._internet.is_cut(self.peer.machine, self.machine):
            self._internet.stall(self)
            return
        if self._reset:
            self._be_reset_now()
            return
        now_us = self._kernel.now_us
        while incoming and incoming[0][0] <= now_us:
            data = incoming.popleft()[1]
            if data is None:
                self._feed(None)
                self._be_reset_now()
                return
            if not data:
                self._ended = True
            self._incoming_bytes -= len(data)
            self._received += data
        self._loop.perform(self._hand_over)

    def hold(self) -> None:
        """Nothing more arrives here until it is released."""
        self._holds += 1

    def release(self) -> None:
        self._holds -= 1
        if not self._holds:
            self.arrive_later()

    def _feed(self, _: None) -> None:
        if self._protocol is not None and not self._gone:
            self._loop.perform(self._hand_over)

    def _hand_over(self) -> None:
        received, protocol = self._received, self._protocol
        had_bytes = left_bytes = len(received)
        if received and not self._closing and isinstance(protocol, asyncio.Protocol):
            protocol.data_received(bytes(received))  # a stream, which pauses when it has too much
            received.clear()
            left_bytes = 0
        while left_bytes and not self._paused and not self._closing:
            buffer = protocol.get_buffer(left_bytes)
            size_bytes = min(left_bytes, len(buffer))
            buffer[:size_bytes] = received if size_bytes == left_bytes else received[:size_bytes]
            del received[:size_bytes]
            protocol.buffer_updated(size_bytes)
            left_bytes = len(received)
        if left_bytes < had_bytes and self.peer._unsent:
            self.open_window()
        if self._ended and not received and not self._closing and not self._paused:
            protocol.eof_received()
            self.close()

    def open_window(self) -> None:
        """The peer may send more."""
        if self.peer._unsent:
            delay_us = self._internet.delay_us(self.machine, self.peer.machine)
            owner = self.peer.machine.owner
            self._kernel.call_in(delay_us, owner, self.peer._on_window, None)

    # -- the end

    def be_reset(self) -> None:
        """A reset is sent to this end: it arrives like everything else."""
        if self._gone or self._reset:
            return
        self._reset = True
        delay_us = self._internet.delay_us(self.peer.machine, self.machine)
        self._kernel.call_in(delay_us, self.machine.owner, self._arrive, None)

    def _be_reset_now(self) -> None:
        self._closing = True
        self._drop_unsent()
        self._incoming.clear()
        self._incoming_bytes = 0
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
        if self._received or self._entropy.getrandbits(1):
            self.peer.be_reset()
        else:
            self._send_segment(b"")
