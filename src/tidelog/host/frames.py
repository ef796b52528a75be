"""Cuts frames out of a byte stream, within bounds that no peer can exceed.

Rules:
- The length is judged before anything is allocated for it, and before authentication it must be
  small (a broker was once exhausted by unauthenticated lengths: CVE-2022-34917).
- Bytes are received into one scratch buffer per event loop. A connection has a buffer of its own
  only while a frame of it is incomplete, so thousands of idle connections cost next to nothing.
- A frame is handed over as a writable memoryview that is valid during the call. Code that keeps
  bytes of it copies them. (Frames in a buffer of their own may be kept: `kept` knows which.)
- Reading stops while anything is over its bound, between two frames and also in the middle of
  a chunk; what was received already waits in the connection's own buffer.
- Every connection ends exactly once, with a counted reason.
"""

import asyncio
import struct
from collections.abc import Sequence
from typing import NamedTuple, Protocol, cast

from tidelog.host.file_range import LEAST_BYTES as LEAST_RANGE_BYTES
from tidelog.host.file_range import has_range, send_all
from tidelog.host.flight import REQUEST_OVERHEAD_BYTES
from tidelog.host.frame_buffers import Scratch
from tidelog.host.network_context import SCRATCH_BYTES, NetworkContext
from tidelog.host.ports import Buffer, CloseReason, FileRange
from tidelog.host.timers import Timer

_CAUTIOUS_BYTES = 4 * 1024
"""Read at once while the node's budget is used up: the rest may as well wait in the kernel."""
_LINGER_MS = 5_000
"""How long a closed connection may take to accept the last bytes it is owed."""

_LENGTH = struct.Struct(">i")
LENGTH_BYTES = _LENGTH.size

# Why a connection is not read. It is read when none of these holds.
WRITE_BUFFER_FULL = 1
CONNECTION_BUDGET_USED = 2
NODE_BUDGET_USED = 4
ANSWERS_HELD = 8
PAUSED_BY_OWNER = 16
STOPPING = 32


class FrameLimits(NamedTuple):
    """Bounds of one connection."""

    untrusted_frame_bytes: int = 64 * 1024
    frame_bytes: int = 100 * 1024 * 1024
    in_flight_bytes: int = 8 * 1024 * 1024
    """0: not counted, for connections on which we are the one who asks. A single frame may be
    larger, if nothing else of the connection is in flight."""
    write_high_bytes: int = 1024 * 1024
    """What a peer may owe us reading and still be read. It keeps less than twice as much, and the
    answer that was too much."""
    idle_timeout_ms: int = 600_000
    """0: never."""
    untrusted_half_frame_timeout_ms: int = 10_000
    half_frame_timeout_ms: int = 30_000
    half_frame_bytes_per_ms: int = 1_000
    """A large frame of a trusted peer may take this much longer."""
    stalled_write_timeout_ms: int = 30_000
    stalled_write_bytes_per_ms: int = 1
    """A peer that owes us reading and reads slower than this is closed."""


class FrameOwner(Protocol):
    def on_connected(self) -> None: ...
    def on_frame(self, frame: memoryview) -> None:
        """Must not raise. Charged until `release(charge_of(frame))`, if the stream counts."""
        ...

    def on_closed(self, reason: CloseReason) -> None: ...


def kept(frame: memoryview) -> memoryview:
    """The frame with a lifetime of its own; copied only if it shares its buffer with others."""
    return memoryview(bytearray(frame)) if isinstance(frame.obj, Scratch) else frame


def charge_of(frame_bytes: int) -> int:
    return frame_bytes + REQUEST_OVERHEAD_BYTES


class FrameStream(asyncio.BufferedProtocol):
    """One connection: frames in, frames out, and the end of it."""

    __slots__ = (
        "_awaited",
        "_context",
        "_continuing",
        "_filled",
        "_frame",
        "_frame_limit",
        "_half_since_ms",
        "_half_timer",
        "_idle_timer",
        "_in_flight_limit_bytes",
        "_lagging",
        "_last_active_ms",
        "_limits",
        "_linger_timer",
        "_out",
        "_out_bytes",
        "_owner",
        "_paused",
        "_reason",
        "_sent_at_stall",
        "_stall_timer",
        "_stash",
        "_transport",
        "_trusted",
        "_unsent",
        "_write_high_bytes",
        "_written_bytes",
        "held_bytes",
        "in_flight_bytes",
        "owed_bytes",
        "peer",
    )

    def __init__(
        self, context: NetworkContext, limits: FrameLimits, owner: FrameOwner, *, trusted: bool
    ) -> None:
        self._context = context
        self._limits = limits
        self._in_flight_limit_bytes = limits.in_flight_bytes
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._reason: CloseReason | None = None
        self.peer = ""
        self.trusted = trusted
        self._paused = 0
        self._continuing = False
        self._stash = bytearray()  # received and not cut yet
        self._frame: memoryview | None = None  # a frame that has a buffer of its own
        self._filled = 0
        self._half_since_ms = -1
        self._half_timer: Timer | None = None
        self._idle_timer: Timer | None = None
        self._linger_timer: Timer | None = None
        self._stall_timer: Timer | None = None
        self._sent_at_stall = 0
        self._last_active_ms = 0
        self._out: list[Buffer | FileRange] = []
        self._out_bytes = 0
        self._write_high_bytes = limits.write_high_bytes
        self._lagging = False  # the transport has something that it could not send yet
        self._awaited = False  # the budget for answers knows that the peer owes us reading
        self._written_bytes = 0
        self.held_bytes = 0
        self.owed_bytes = 0
        self._unsent = False  # the context knows that there is something to send
        self.in_flight_bytes = 0

    # ---- what the owner uses ----

    @property
    def trusted(self) -> bool:
        return self._trusted

    @trusted.setter
    def trusted(self, trusted: bool) -> None:
        self._trusted = trusted
        limits = self._limits
        self._frame_limit = limits.frame_bytes if trusted else limits.untrusted_frame_bytes

    @property
    def congested(self) -> bool:
        return self._paused & WRITE_BUFFER_FULL != 0

    @property
    def has_ended(self) -> bool:
        return self._reason is not None

    @property
    def reading(self) -> bool:
        return self._paused == 0 and self._reason is None

    @property
    def buffered_bytes(self) -> int:
        """Everything this connection keeps in memory that is not yet cut or not yet sent."""
        frame_bytes = 0 if self._frame is None else len(self._frame)
        return len(self._stash) + frame_bytes + self._out_bytes + self._unsent_bytes()

    def write(self, parts: Sequence[Buffer | FileRange], size_bytes: int) -> None:
        """Send one frame of `size_bytes`. What is written in one callback leaves together; what
        lies in a file leaves now."""
        if self._reason is not None:
            return
        context = self._context
        self._out += (_LENGTH.pack(size_bytes), *parts)
        size_bytes += LENGTH_BYTES
        out_bytes = self._out_bytes = self._out_bytes + size_bytes
        self.owed_bytes += size_bytes
        context.answers.owed_bytes += size_bytes
        context.counters.frames_out += 1
        if out_bytes >= self._write_high_bytes:
            self.flush()  # now, so that the transport tells us if it is too much
        elif size_bytes >= LEAST_RANGE_BYTES and has_range(parts):
            self.flush()
        elif not self._unsent:
            self._unsent = True
            context.flush_later(self)

    def hold(self, size_bytes: int) -> None:
        """The owner keeps an answer of this connection that must wait for another one."""
        if self._reason is None:
            self.held_bytes += size_bytes
            self.owed_bytes += size_bytes
            self._context.answers.charge(size_bytes)
            self._wait_for_reader()

    def unhold(self, size_bytes: int) -> None:
        """It is about to be written."""
        if self._reason is None:
            assert size_bytes <= self.held_bytes, (size_bytes, self.held_bytes)
            self.held_bytes -= size_bytes
            self._forgive(size_bytes)

    def hang_up(self) -> None:
        """For the budget: this peer has owed longest."""
        self.abort(CloseReason.SLOW_READER)

    def pause(self, why: int) -> None:
        if self._paused == 0:
            self._pause_transport()
        self._paused |= why

    def resume(self, why: int) -> bool:
        """True if reading goes on, which it does in a callback of its own."""
        if not self._paused & why:
            return False
        self._paused &= ~why
        if self._paused or self._reason is not None:
            return False
        if not self._continuing:
            self._continuing = True
            self._context.loop.call_soon(self._continue)
        return True

    def release(self, charge_bytes: int) -> None:
        """Requests of this many charged bytes are no longer in flight."""
        if self._reason is not None or not self._in_flight_limit_bytes:
            return
        assert charge_bytes <= self.in_flight_bytes, (charge_bytes, self.in_flight_bytes)
        in_flight_bytes = self.in_flight_bytes = self.in_flight_bytes - charge_bytes
        # Half, so that a busy connection does not stop and start for every single request.
        if self._paused and in_flight_bytes <= self._in_flight_limit_bytes // 2:
            self.resume(CONNECTION_BUDGET_USED)
        self._context.flight.release(charge_bytes)

    def close(self, reason: CloseReason) -> None:
        """Send what is owed, then end. A peer that does not take it is cut off after a while."""
        if self._reason is not None or self._transport is None:
            return
        self.flush()
        self._end(reason)
        self._linger_timer = self._context.wheel.after(_LINGER_MS, self._transport.abort)
        self._transport.close()

    def abort(self, reason: CloseReason) -> None:
        """End now, whatever is owed. Also ends the wait of a `close` before it."""
        if self._transport is None:
            return
        if self._reason is None:
            self._end(reason)
        self._transport.abort()

    # ---- what the event loop calls ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._context.open[self] = None
        self._transport.set_write_buffer_limits(high=0)  # we count, and hear of every byte left
        peername = transport.get_extra_info("peername")
        self.peer = str(peername[0]) if peername else ""
        self._last_active_ms = self._context.wheel.now_ms()
        if self._limits.idle_timeout_ms:
            self._idle_timer = self._context.wheel.after(
                self._limits.idle_timeout_ms, self._on_idle_timer
            )
        self._owner.on_connected()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._frame is not None:
            return self._frame[self._filled :]
        scratch = self._context.scratch
        stash = self._stash
        if stash:
            # At most once per frame: one that is still incomplete afterwards gets its own buffer.
            size_bytes = len(stash)
            assert size_bytes < SCRATCH_BYTES, (size_bytes, SCRATCH_BYTES)
            scratch[:size_bytes] = stash
            return scratch[size_bytes:]
        flight = self._context.flight
        if flight.used_bytes >= flight.limit_bytes and self._in_flight_limit_bytes:
            return scratch[:_CAUTIOUS_BYTES]
        return scratch

    def buffer_updated(self, nbytes: int) -> None:
        if self._reason is not None:
            return
        context = self._context
        context.counters.bytes_in += nbytes
        self._last_active_ms = context.wheel.now_ms()
        context.corked = True
        try:
            if self._frame is not None:
                self._fill(nbytes)
            else:
                self._cut(context.scratch, len(self._stash) + nbytes)
        finally:
            context.uncork()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._lagging = True

    def resume_writing(self) -> None:
        self._lagging = False
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        # The transport has sent all it was given.
        self._forgive(self.owed_bytes - self.held_bytes - self._out_bytes)
        self.resume(WRITE_BUFFER_FULL)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._reason is None:
            self._end(_reason_of(exc))
        assert self._reason is not None
        if self._linger_timer is not None:
            self._linger_timer.cancel()
        self.held_bytes = 0
        self._forgive(self.owed_bytes)
        self._transport = None
        self._context.open.pop(self, None)
        self._context.counters.closed[self._reason] += 1
        self._owner.on_closed(self._reason)

    # ---- receiving ----

    def _cut(self, view: memoryview, end: int) -> None:
        """Hand over every whole frame among the first `end` bytes, keep the rest."""
        position = 0
        received = self._owner.on_frame
        counters = self._context.counters
        limited = self._in_flight_limit_bytes
        while not self._paused and end - position >= LENGTH_BYTES:
            (length,) = _LENGTH.unpack_from(view, position)
            if not 0 <= length <= self._frame_limit:
                self._refuse(length)
                return
            start = position + LENGTH_BYTES
            stop = start + length
            if stop > end or (limited and not self._granted(length)):
                break
            position = stop
            counters.frames_in += 1
            received(view[start:stop])
            if self._reason is not None:
                return
        if position == end and not self._stash:  # as good as always
            self._half_since_ms = -1
        else:
            self._keep(view, position, end)

    def _keep(self, view: memoryview, position: int, end: int) -> None:
        rest_bytes = end - position
        again = position == 0 and len(self._stash) > 0
        if not again:
            self._half_since_ms = -1
        if rest_bytes == 0:
            if self._stash:
                self._stash = bytearray()
            return
        if not self._paused:
            self._watch_half_frame()
            if rest_bytes >= LENGTH_BYTES:
                (length,) = _LENGTH.unpack_from(view, position)
                large = length + LENGTH_BYTES > SCRATCH_BYTES
                if (large or again) and self._granted(length):
                    self._open_frame(length, view[position + LENGTH_BYTES : end])
                    return
        self._stash = bytearray(view[position:end])

    def _open_frame(self, length: int, head: memoryview) -> None:
        """Give a frame that does not come in one piece exactly the memory it needs."""
        assert len(head) < length <= self._frame_limit, (len(head), length, self._frame_limit)
        self._frame = self._context.buffers.take(length)
        self._frame[: len(head)] = head
        self._filled = len(head)
        self._stash = bytearray()

    def _fill(self, size_bytes: int) -> None:
        frame = self._frame
        assert frame is not None
        self._filled += size_bytes
        assert self._filled <= len(frame), (self._filled, len(frame))
        if self._filled == len(frame):
            self._frame = None
            self._half_since_ms = -1
            self._context.counters.frames_in += 1
            self._owner.on_frame(frame)

    def _granted(self, length: int) -> bool:
        """Charge a frame, or stop reading until it can be."""
        limit_bytes = self._in_flight_limit_bytes
        if not limit_bytes:
            return True
        charge_bytes = length + REQUEST_OVERHEAD_BYTES
        in_flight_bytes = self.in_flight_bytes
        if in_flight_bytes and in_flight_bytes + charge_bytes > limit_bytes:
            self.pause(CONNECTION_BUDGET_USED)
            return False
        flight = self._context.flight
        if flight.used_bytes >= flight.limit_bytes:
            self.pause(NODE_BUDGET_USED)
            flight.wait(self)
            return False
        self.in_flight_bytes = in_flight_bytes + charge_bytes
        flight.charge(charge_bytes)
        return True

    def budget_freed(self) -> bool:
        return self.resume(NODE_BUDGET_USED)

    def _continue(self) -> None:
        """Cut what had been received when reading stopped, then read on."""
        self._continuing = False
        if self.reading:
            if self._stash:
                self._context.corked = True
                try:
                    self._cut(memoryview(self._stash), len(self._stash))
                finally:
                    self._context.uncork()
            transport = self._transport
            if self.reading and transport is not None and not transport.is_closing():
                transport.resume_reading()
        self._context.flight.wake_next()

    def _pause_transport(self) -> None:
        transport = self._transport
        if self._reason is None and transport is not None and not transport.is_closing():
            transport.pause_reading()

    def _refuse(self, length: int) -> None:
        reason = CloseReason.NEGATIVE_LENGTH if length < 0 else CloseReason.FRAME_TOO_LARGE
        self.close(reason)

    # ---- sending ----

    def flush(self) -> None:
        """Hand what was written to the transport."""
        self._unsent = False
        out = self._out
        if not out or self._reason is not None or self._transport is None:
            return
        if self._transport.is_closing():  # the peer went, and the loop is about to tell us
            return
        size_bytes = self._out_bytes
        self._out = []
        self._out_bytes = 0
        self._written_bytes += size_bytes
        counters = self._context.counters
        counters.bytes_out += size_bytes
        counters.writes += 1
        if size_bytes < LEAST_RANGE_BYTES:
            self._transport.writelines(cast("list[Buffer]", out))
        else:
            try:
                send_all(self._transport, out)
            except OSError:  # of a file: half a frame has left
                self.abort(CloseReason.FILE_FAILED)
                return
        if self._lagging:
            if self.owed_bytes > self._write_high_bytes and not self.congested:
                self.pause(WRITE_BUFFER_FULL)
                self._watch_stall()
            self._wait_for_reader()
        elif self._awaited:
            self._forgive(self.owed_bytes - self.held_bytes)
        else:
            assert self.held_bytes == 0, self.held_bytes
            self._context.answers.release(self.owed_bytes)
            self.owed_bytes = 0

    def _wait_for_reader(self) -> None:
        self._awaited = True
        self._context.answers.wait(self)

    def _forgive(self, size_bytes: int) -> None:
        owed_bytes = self.owed_bytes = self.owed_bytes - size_bytes
        answers = self._context.answers
        answers.release(size_bytes)
        if self._awaited and owed_bytes == 0:
            self._awaited = False
            answers.settle(self)

    def _unsent_bytes(self) -> int:
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    # ---- deadlines and the end ----

    def _watch_half_frame(self) -> None:
        """One timer serves many frames: it looks, when it fires, how old the present one is."""
        if self._half_since_ms >= 0:
            return
        self._half_since_ms = self._last_active_ms
        if self._half_timer is None or not self._half_timer.pending:
            self._half_timer = self._context.wheel.add(
                self._half_frame_deadline_ms(), self._on_half_frame_timer
            )

    def _half_frame_deadline_ms(self) -> int:
        limits = self._limits
        if not self._trusted:
            return self._half_since_ms + limits.untrusted_half_frame_timeout_ms
        frame_bytes = 0 if self._frame is None else len(self._frame)
        more_ms = frame_bytes // limits.half_frame_bytes_per_ms
        return self._half_since_ms + limits.half_frame_timeout_ms + more_ms

    def _on_half_frame_timer(self) -> None:
        if self._half_since_ms < 0:
            return
        now_ms = self._context.wheel.now_ms()
        deadline_ms = self._half_frame_deadline_ms()
        if self._paused:  # we are the one who does not read
            self._half_since_ms = now_ms
            deadline_ms = self._half_frame_deadline_ms()
        if deadline_ms <= now_ms:
            self.abort(CloseReason.HALF_FRAME)
        else:
            self._half_timer = self._context.wheel.add(deadline_ms, self._on_half_frame_timer)

    def _on_idle_timer(self) -> None:
        wheel = self._context.wheel
        now_ms = wheel.now_ms()
        if self.in_flight_bytes or self._paused:  # waiting is on our side
            self._last_active_ms = now_ms
        deadline_ms = self._last_active_ms + self._limits.idle_timeout_ms
        if deadline_ms <= now_ms:
            self.close(CloseReason.IDLE)
        else:
            self._idle_timer = wheel.add(deadline_ms, self._on_idle_timer)

    def _watch_stall(self) -> None:
        self._sent_at_stall = self._sent_bytes()
        self._stall_timer = self._context.wheel.after(
            self._limits.stalled_write_timeout_ms, self._on_stall_timer
        )

    def _on_stall_timer(self) -> None:
        limits = self._limits
        least_bytes = limits.stalled_write_timeout_ms * limits.stalled_write_bytes_per_ms
        if self._sent_bytes() - self._sent_at_stall < least_bytes:
            self.abort(CloseReason.SLOW_READER)
        else:
            self._watch_stall()

    def _sent_bytes(self) -> int:
        assert self._transport is not None
        return self._written_bytes - self._transport.get_write_buffer_size()

    def _end(self, reason: CloseReason) -> None:
        """Give everything back. The transport may live on for the last bytes."""
        assert self._reason is None, (self._reason, reason)
        self._reason = reason
        for timer in (self._half_timer, self._idle_timer, self._stall_timer):
            if timer is not None:
                timer.cancel()
        self._stash = bytearray()
        self._frame = None
        self._out = []
        self._out_bytes = 0
        flight = self._context.flight
        flight.forget(self)
        in_flight_bytes, self.in_flight_bytes = self.in_flight_bytes, 0
        flight.release(in_flight_bytes)


def _reason_of(error: Exception | None) -> CloseReason:
    if error is None:
        return CloseReason.CLOSED_BY_PEER
    if isinstance(error, ConnectionResetError | ConnectionAbortedError | BrokenPipeError):
        return CloseReason.RESET_BY_PEER
    if isinstance(error, TimeoutError):
        return CloseReason.PEER_TIMED_OUT
    return CloseReason.NETWORK_FAILED
