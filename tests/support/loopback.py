"""A real network on the loopback interface, a clock the test owns, and peers without manners."""

import asyncio
import contextlib
import socket
import struct

from support.manual_clock import ManualClock
from tidelog.host.frames import kept
from tidelog.host.network import TcpNetwork
from tidelog.host.ports import NetworkError

GUARD_S = 60
"""No story may hang for ever. Nothing is measured against it."""


TURNS_TO_CLOSE = 5
"""A connection that is closed, or given up while it is made, gives its socket back in the next
turns of the loop; one that ends before leaves it open."""


def run(story, loop_factory=None):
    """Run one story to its end; an error that reached the loop itself fails it too."""
    errors = []

    async def guarded():
        asyncio.get_running_loop().set_exception_handler(lambda _, what: errors.append(what))
        async with asyncio.timeout(GUARD_S):
            await story()
            for _ in range(TURNS_TO_CLOSE):
                await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(guarded())
    assert not errors, errors


async def until(condition):
    """Let the loop turn until something is so."""
    while not condition():
        await asyncio.sleep(0)


def answer_of(connection, buffers, *, timeout_ms, correlation_id=None):
    """Send a request: a future of its answer, which is kept, or of the error."""
    future = asyncio.get_running_loop().create_future()

    def settle(outcome):
        if future.done():
            return
        if isinstance(outcome, NetworkError):
            future.set_exception(outcome)
        else:
            future.set_result(kept(outcome))

    connection.send(buffers, settle, timeout_ms=timeout_ms, correlation_id=correlation_id)
    return future


@contextlib.asynccontextmanager
async def loopback(**options):
    """A network whose deadlines come when the test moves `network.wheel.clock`."""
    clock = options.pop("clock", None) or ManualClock()
    network = TcpNetwork(clock, **options)
    try:
        yield network
    finally:
        network.close()


def pass_time(network, by_ms):
    network.wheel.clock.advance(by_ms)
    network.wheel.fire_due()


class Script:
    """A handler that does what the test says for each request, and remembers everything."""

    def __init__(self, on_request=None):
        self.connections = []
        self.requests = []
        self.slots = []
        self.closed = []
        self._on_request = on_request or (lambda connection, frame, slot: None)

    def accept(self, connection):
        self.connections.append(connection)
        return _Served(self, connection)

    def perform(self, connection, frame, slot):
        self.requests.append(bytes(frame))
        self.slots.append(slot)
        self._on_request(connection, frame, slot)


class _Served:
    def __init__(self, script, connection):
        self._script = script
        self._connection = connection

    def on_request(self, frame, slot):
        self._script.perform(self._connection, frame, slot)

    def on_closed(self, reason):
        self._script.closed.append(reason)


def echo(_connection, frame, slot):
    slot.answer([b"re:", bytes(frame)])


def framed(*frames):
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


class RawPeer:
    """A socket that sends what it likes, when it likes."""

    def __init__(self, sock):
        self.sock = sock
        self._loop = asyncio.get_running_loop()

    async def send(self, data):
        await self._loop.sock_sendall(self.sock, data)

    async def frame(self):
        """The next frame, or None at the end of the stream."""
        head = await self._exactly(4)
        return None if head is None else await self._exactly(struct.unpack(">i", head)[0])

    async def ended(self):
        """Read until the other side is gone, whichever way."""
        try:
            while await self._loop.sock_recv(self.sock, 65536):
                pass
        except ConnectionError:
            pass

    def reset(self):
        """Throw the connection away as a dying process would."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    async def _exactly(self, size):
        data = bytearray()
        while len(data) < size:
            piece = await self._loop.sock_recv(self.sock, min(size - len(data), 1 << 20))
            if not piece:
                assert not data, f"the stream ended within a frame: {bytes(data[:40])!r}"
                return None
            data += piece
        return bytes(data)


@contextlib.asynccontextmanager
async def raw_peer(port, receive_bytes=None):
    with socket.socket() as sock:
        sock.setblocking(False)
        if receive_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        yield RawPeer(sock)
