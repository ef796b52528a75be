"""TLS between a `FrameStream` and the transport of its socket.

The transport below sees it as the protocol, the stream above sees it as the transport. We do not
use asyncio's, because the bounds of a connection need this: a stranger is counted when it connects
and not when its handshake is done, the handshake has a deadline of the node's own clock, and an
answer is encrypted in pieces, as fast as the socket takes them, not all of it at once.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol, cast

from tidelog.host.network_context import NetworkContext
from tidelog.host.ports import Buffer
from tidelog.host.timers import Timer

HANDSHAKE_TIMEOUT_MS = 10_000
PIECE_BYTES = 64 * 1024
"""Encrypted or decrypted at once. OpenSSL keeps a buffer of the largest piece it ever had for each
connection, and the socket's answer decides whether the next piece follows."""
_JOINED_BYTES = 16 * 1024
"""A record of TLS holds this much: smaller parts of an answer share one."""


class Secured(Protocol):
    """Who is told how the handshake went: one of the first two, once."""

    def on_secured(self, certificate: bytes | None) -> None:
        """With the peer's certificate, if it has shown one that counts."""
        ...

    def on_insecure(self, reason: ssl.SSLError | TimeoutError) -> None:
        """The connection is gone, or goes now."""
        ...

    def on_refused(self, reason: ssl.SSLError) -> None:
        """After the handshake, the peer said no to our certificate; the connection goes now. With
        TLS 1.3 a client is through with the handshake before the server has seen it."""
        ...


def is_refusal(reason: ssl.SSLError) -> bool:
    """An alert of the peer's about our certificate: the next attempt would get the same."""
    name = reason.reason or ""
    return "_ALERT_" in name and ("CERTIFICATE" in name or "UNKNOWN_CA" in name)


def reason_text(reason: ssl.SSLError | TimeoutError) -> str:
    """Without the numbers of OpenSSL's source: "certificate verify failed: … has expired"."""
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {reason.verify_message}"
    name = getattr(reason, "reason", None)  # an error of our own making has none
    if name:
        return str(name).lower().replace("_", " ")
    return str(reason.args[-1] if reason.args else reason)


class TlsTransport(asyncio.BufferedProtocol, asyncio.Transport):
    """One connection. Both of its ends are called on one event loop."""

    __slots__ = (
        "_above",
        "_below",
        "_closing",
        "_context",
        "_encrypted",
        "_judge",
        "_make",
        "_paused",
        "_reading_soon",
        "_secured",
        "_stalled",
        "_timer",
        "_tls",
        "_to_decrypt",
        "_told_to_wait",
        "_unsent",
        "_unsent_bytes",
    )

    def __init__(
        self,
        above: asyncio.BufferedProtocol,
        secured: Secured,
        make: Callable[[ssl.MemoryBIO, ssl.MemoryBIO], ssl.SSLObject],
        context: NetworkContext,
    ) -> None:
        self._above = above
        self._secured: Secured | None = secured  # None: it was told
        self._judge = secured
        self._make = make
        self._context = context
        self._to_decrypt = ssl.MemoryBIO()
        self._encrypted = ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        self._below: asyncio.Transport | None = None
        self._timer: Timer | None = None
        self._unsent: deque[Buffer] = deque()
        self._unsent_bytes = 0
        self._stalled = False  # the socket takes no more for now
        self._told_to_wait = False
        self._paused = False
        self._reading_soon = False
        self._closing = False

    # ---- what the transport below calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._below = cast(asyncio.Transport, transport)
        self._below.set_write_buffer_limits(high=0)
        self._tls = self._make(self._to_decrypt, self._encrypted)
        self._timer = self._context.wheel.after(HANDSHAKE_TIMEOUT_MS, self._on_late)
        self._above.connection_made(self)
        if not self._below.is_closing():
            self._shake_hands()

    def get_buffer(self, sizehint: int) -> memoryview:
        """The scratch buffer of all: what lies there is copied before anybody else is called."""
        return self._context.scratch[:PIECE_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        self._to_decrypt.write(self._context.scratch[:nbytes])
        if self._secured is not None:
            self._shake_hands()
        else:
            self._read()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._stalled = True

    def resume_writing(self) -> None:
        self._stalled = False
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._unsent.clear()
        self._unsent_bytes = 0
        secured, self._secured = self._secured, None
        if secured is not None:
            secured.on_insecure(ssl.SSLEOFError("the peer left during the handshake"))
        self._above.connection_lost(exc)

    # ---- the handshake

    def _shake_hands(self) -> None:
        assert self._tls is not None, "no connection"
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._push()
            return
        except ssl.SSLError as reason:
            self._push()  # the alert that says why
            self._give_up(reason)
            return
        self._push()
        if self._timer is not None:
            self._timer.cancel()
        secured, self._secured = self._secured, None
        assert secured is not None, "two handshakes on one connection"
        secured.on_secured(self._tls.getpeercert(binary_form=True))
        self._send()
        if self._paused:
            self._pause_below()
        else:
            self._read()

    def _on_late(self) -> None:
        self._give_up(TimeoutError(f"no handshake within {HANDSHAKE_TIMEOUT_MS} ms"))

    def _give_up(self, reason: ssl.SSLError | TimeoutError) -> None:
        secured, self._secured = self._secured, None
        if secured is not None:
            secured.on_insecure(reason)
        if self._below is not None:
            self._below.close()

    # ---- receiving

    def _read(self) -> None:
        """Decrypt what is there, into as few pieces as the stream has room for."""
        assert self._tls is not None, "no connection"
        while not self._paused and not self._closing:
            buffer = self._above.get_buffer(-1)
            size_bytes, over = self._decrypt(memoryview(buffer))
            if size_bytes:
                self._above.buffer_updated(size_bytes)
            if over:
                break
        self._push()

    def _decrypt(self, buffer: memoryview) -> tuple[int, bool]:
        """How much came out, and whether that was all. A record is 16 KiB at most, so many of
        them go into one buffer."""
        assert self._tls is not None, "no connection"
        filled = 0
        try:
            while filled < len(buffer):
                got = cast(int, self._tls.read(len(buffer) - filled, buffer[filled:]))
                if not got:
                    raise ssl.SSLZeroReturnError("closed")
                filled += got
        except ssl.SSLWantReadError:
            return filled, True
        except ssl.SSLError as reason:
            self._context.loop.call_soon(self._ended, reason)
            return filled, True
        return filled, False

    def _ended(self, reason: ssl.SSLError) -> None:
        """The peer said good-bye, or sent what is no TLS."""
        if self._below is None:
            return
        if isinstance(reason, ssl.SSLZeroReturnError):
            self._below.close()
        else:
            if is_refusal(reason):
                self._judge.on_refused(reason)
            self._push()
            self._below.abort()

    def pause_reading(self) -> None:
        self._paused = True
        if self._secured is None:  # the handshake goes on
            self._pause_below()

    def resume_reading(self) -> None:
        if not self._paused:
            return
        self._paused = False
        if self._below is not None and not self._below.is_closing():
            self._below.resume_reading()
        if not self._reading_soon and self._secured is None:
            self._reading_soon = True
            self._context.loop.call_soon(self._read_soon)

    def _read_soon(self) -> None:
        """What was decrypted or received already makes no event of the socket."""
        self._reading_soon = False
        if self._below is not None and not self._below.is_closing():
            self._read()

    def _pause_below(self) -> None:
        if self._below is not None and not self._below.is_closing():
            self._below.pause_reading()

    def is_reading(self) -> bool:
        return not self._paused

    # ---- sending

    def write(self, data: Buffer) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        if self._closing:
            return
        small: list[Buffer] = []
        for each in list_of_data:
            if len(each) < _JOINED_BYTES:
                small.append(each)
                continue
            self._queue(small)
            small = []
            self._unsent.append(each)
            self._unsent_bytes += len(each)
        self._queue(small)
        self._send()

    def _queue(self, small: list[Buffer]) -> None:
        if small:
            joined = small[0] if len(small) == 1 else b"".join(small)
            self._unsent.append(joined)
            self._unsent_bytes += len(joined)

    def _send(self) -> None:
        """Encrypt and send until the socket takes no more, and tell the stream."""
        if self._secured is None and self._tls is not None:
            while self._unsent and not self._stalled:
                try:
                    self._encrypt(self._unsent.popleft())
                except ssl.SSLError:  # the peer has ended it, and `_ended` is about to be called
                    self._unsent.clear()
                    self._unsent_bytes = 0
                    break
                self._push()
        waiting = self.get_write_buffer_size() > 0
        if waiting and not self._told_to_wait:
            self._told_to_wait = True
            self._above.pause_writing()
        elif self._told_to_wait and not waiting:
            self._told_to_wait = False
            self._above.resume_writing()
        if self._closing and not waiting:
            self._say_good_bye()

    def _encrypt(self, data: Buffer) -> None:
        assert self._tls is not None, "no connection"
        if len(data) > PIECE_BYTES:
            view = memoryview(data)
            self._unsent.appendleft(view[PIECE_BYTES:])
            data = view[:PIECE_BYTES]
        self._unsent_bytes -= len(data)
        if data:
            self._tls.write(data)

    def _push(self) -> None:
        """Give the socket what was encrypted."""
        if self._encrypted.pending and self._below is not None and not self._below.is_closing():
            self._below.write(self._encrypted.read())

    def get_write_buffer_size(self) -> int:
        below = self._below.get_write_buffer_size() if self._below is not None else 0
        return self._unsent_bytes + below

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is one way: to tell of every byte that is left."""
        assert high == 0, high

    # ---- the end

    def is_closing(self) -> bool:
        return self._closing or self._below is None or self._below.is_closing()

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._send()

    def _say_good_bye(self) -> None:
        assert self._below is not None, "no connection"
        if self._secured is None and self._tls is not None and not self._below.is_closing():
            try:
                self._tls.unwrap()
            except ssl.SSLError:  # that the peer has not said it yet, or will not
                self._push()
        self._below.close()

    def abort(self) -> None:
        self._closing = True
        if self._below is not None:
            self._below.abort()

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Not the socket: what bypasses us would be read by everybody."""
        if name == "ssl_object":
            return self._tls
        if name == "socket" or self._below is None:
            return default
        return self._below.get_extra_info(name, default)
