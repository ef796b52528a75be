"""A transport without a socket: bytes are pushed in by hand, and what is written is kept."""

import asyncio

from support.manual_clock import ManualClock
from tidelog.host.answers import AnswerBudget
from tidelog.host.flight import NodeFlight
from tidelog.host.frames import FrameLimits, FrameStream
from tidelog.host.network_context import NetworkContext
from tidelog.host.ports import CloseReason
from tidelog.host.timers import TimerWheel


class Callbacks:
    """What is left of an event loop when only `call_soon` is needed."""

    def __init__(self):
        self._ready = []

    def call_soon(self, callback):
        self._ready.append(callback)

    @property
    def idle(self):
        return not self._ready

    def run(self):
        while self._ready:
            self._ready.pop(0)()


class MemoryTransport(asyncio.Transport):
    def __init__(self, stream):
        super().__init__()
        self.stream = stream
        self.reading = True
        self.closing = False
        self.written = []
        stream.connection_made(self)

    def push(self, data) -> int:
        """As a socket would: as much as the stream takes now. How many bytes that was."""
        pushed = 0
        while pushed < len(data) and self.reading and not self.closing:
            room = self.stream.get_buffer(-1)
            size = min(len(room), len(data) - pushed)
            room[:size] = data[pushed : pushed + size]
            self.stream.buffer_updated(size)
            pushed += size
        return pushed

    def get_extra_info(self, name, default=None):
        return ("memory", 1) if name == "peername" else default

    def set_write_buffer_limits(self, high=None, low=None):
        pass

    def get_write_buffer_size(self):
        return 0

    def is_closing(self):
        return self.closing

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def writelines(self, list_of_data):
        self.written.append([bytes(part) for part in list_of_data])

    def abort(self):
        if not self.closing:
            self.closing = True
            self.stream.connection_lost(None)

    close = abort


class Collector:
    """An owner that copies every frame."""

    def __init__(self):
        self.frames = []
        self.closed: CloseReason | None = None
        self.on_each = lambda frame: None

    def on_connected(self):
        pass

    def on_frame(self, frame):
        self.frames.append(bytes(frame))
        self.on_each(frame)

    def on_closed(self, reason):
        self.closed = reason


def make_context(in_flight_bytes=2**40):
    clock = ManualClock()
    return NetworkContext(
        Callbacks(), TimerWheel(clock), NodeFlight(in_flight_bytes), AnswerBudget()
    )


def make_stream(context, *, limits=FrameLimits(in_flight_bytes=2**40), trusted=True):  # noqa: B008
    owner = Collector()
    stream = FrameStream(context, limits, owner, trusted=trusted)
    return owner, stream, MemoryTransport(stream)
