"""TLS for protocols without frames: a listening socket whose connections are asyncio's streams.

It is our own TLS (ADR 0043): a connection is counted before its handshake, which has a deadline,
and every new connection gets the current certificate.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from tidelog.host.listening import OnStreams
from tidelog.host.network_context import NetworkContext
from tidelog.host.tls_transport import TlsTransport, reason_text

MakeContext = Callable[[], ssl.SSLContext]


class NotSecured(ConnectionError):  # noqa: N818 - it names what is so
    """The handshake came to nothing."""


class TlsStreams:
    """Listens with TLS, as `listen_streams` does without."""

    __slots__ = ("_context", "_make_context")

    def __init__(self, make_context: MakeContext, context: NetworkContext) -> None:
        self._make_context = make_context
        self._context = context

    async def listen(
        self, on_accepted: OnStreams, host: str, port: int, *, line_bytes_max: int
    ) -> asyncio.Server:
        """On every address if `host` is empty. OSError if the address cannot be had."""

        def accept() -> TlsTransport:
            above = _TlsStream(on_accepted, line_bytes_max, self._context)
            return TlsTransport(above, above, self._wrapped, self._context)

        return await self._context.loop.create_server(accept, host or None, port)

    def _wrapped(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject:
        return self._make_context().wrap_bio(incoming, outgoing, server_side=True)


class _TlsStream(asyncio.BufferedProtocol):
    """Between the TLS of one connection and its reader and writer."""

    __slots__ = ("_context", "_protocol", "_reader")

    def __init__(
        self, on_accepted: OnStreams, line_bytes_max: int, context: NetworkContext
    ) -> None:
        self._context = context
        self._reader = asyncio.StreamReader(limit=line_bytes_max, loop=context.loop)
        self._protocol = asyncio.StreamReaderProtocol(self._reader, on_accepted, loop=context.loop)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._protocol.connection_made(cast(asyncio.Transport, transport))

    def get_buffer(self, sizehint: int) -> memoryview:
        """That of all: what lies there is copied before anybody else is called."""
        return self._context.scratch

    def buffer_updated(self, nbytes: int) -> None:
        self._protocol.data_received(bytes(self._context.scratch[:nbytes]))

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)

    # ---- what the handshake came to

    def on_secured(self, certificate: bytes | None) -> None:
        """The reader hears what is said from now on."""

    def on_insecure(self, reason: ssl.SSLError | TimeoutError) -> None:
        self._reader.set_exception(NotSecured(reason_text(reason)))

    def on_refused(self, reason: ssl.SSLError) -> None:
        self._reader.set_exception(NotSecured(reason_text(reason)))
