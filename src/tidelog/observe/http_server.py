"""A very small HTTP/1.1 server: one request per connection, everything bounded (ADR 0019).

It serves a scraper, a console and an operator with curl, on the event loop that also serves
clients. So whoever is slow, large or rude here is answered shortly and let go.
"""

import asyncio
import ipaddress
import json
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from tidelog.host import tasks
from tidelog.host.listening import close_listening, listen_streams
from tidelog.host.tls_streams import NotSecured, TlsStreams

HEAD_MAX_BYTES = 8 * 1024
BODY_MAX_BYTES = 64 * 1024
REQUEST_TIMEOUT_MS = 5_000
WRITE_TIMEOUT_MS = 10_000
MOST_CONNECTIONS = 64
WRITE_BUFFER_BYTES = 64 * 1024
METHODS = ("GET", "POST", "DELETE")
JSON = "application/json"
LOCAL_NAMES = ("localhost", "ip6-localhost")

_LOGGER = logging.getLogger("tidelog.http")


class Request(NamedTuple):
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    peer: str = ""
    """The address that it comes from."""
    certificate: bytes | None = None
    """Of the peer, if it has shown one that counts."""


class Response(NamedTuple):
    status: int
    body: bytes
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    stream: AsyncGenerator[bytes, None] | None = None
    """What follows the body, until it ends or the client goes."""


Handler = Callable[[Request], Awaitable[Response]]


class BadRequest(Exception):  # noqa: N818 - what it is, not an accident of ours
    """The request is answered with a status and a reason, and not looked at further."""

    def __init__(self, status: int, reason: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = headers


def json_response(
    document: object, status: int = 200, headers: tuple[tuple[str, str], ...] = ()
) -> Response:
    return Response(status, json.dumps(document).encode() + b"\n", headers=headers)


class HttpServer:
    """Owner of one listening socket and its connections."""

    __slots__ = (
        "_handler",
        "_loopback",
        "_server",
        "_stopping",
        "_tasks",
        "_tls",
        "closed",
        "requests",
    )

    def __init__(self, handler: Handler, tls: TlsStreams | None = None) -> None:
        """Without `tls` everything is plain text."""
        self._handler = handler
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._stopping = False
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._loopback = True
        self.requests: Counter[int] = Counter()
        """By status."""
        self.closed: Counter[str] = Counter()
        """Connections that ended otherwise than with an answer, by reason."""

    @property
    def port(self) -> int:
        assert self._server is not None, "not started"
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def open(self) -> int:
        return len(self._tasks)

    async def start(self, host: str, port: int) -> None:
        """OSError if the address cannot be had."""
        listen = listen_streams if self._tls is None else self._tls.listen
        self._server = await listen(self._accept, host, port, line_bytes_max=HEAD_MAX_BYTES)
        address = self._server.sockets[0].getsockname()[0]
        self._loopback = ipaddress.ip_address(address).is_loopback

    async def stop(self) -> None:
        """Every connection ends, streams too."""
        if self._server is None:
            return
        self._stopping = True
        await close_listening(self._server)
        serving = list(self._tasks)
        for task in serving:
            task.cancel()
        if serving:
            await asyncio.wait(serving)
        await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._stopping:
            writer.transport.abort()
            return
        if len(self._tasks) >= MOST_CONNECTIONS:
            self.closed["too-many-connections"] += 1
            writer.transport.abort()
            return
        task = tasks.begin(self._serve(reader, writer))
        self._tasks[task] = None
        task.add_done_callback(partial(self._ended, writer))

    def _ended(self, writer: asyncio.StreamWriter, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        writer.close()  # a task that is cancelled before its first turn never comes to do it

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._tls is None:  # TLS tells of every byte that is left
                writer.transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
            response = await self._answer_to(reader, writer)
            if response is not None:
                self.requests[response.status] += 1
                await send(writer, head_of(response) + response.body)
                if response.stream is not None:
                    await self._pass_on(response.stream, reader, writer)
        except TimeoutError:
            self.closed["slow-reader"] += 1
            writer.transport.abort()
        except ConnectionError:
            self.closed["reset"] += 1
        finally:
            writer.close()
            with suppress(ConnectionError, TimeoutError):
                async with tasks.within(WRITE_TIMEOUT_MS):
                    await writer.wait_closed()

    async def _answer_to(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Response | None:
        """None: the client went before it had asked."""
        try:
            async with tasks.within(REQUEST_TIMEOUT_MS):
                request = await read_request(reader)
            request = request._replace(peer=peer_of(writer), certificate=certificate_of(writer))
            self._refuse_strangers(request)
            return await self._handler(request)
        except TimeoutError:
            reason = f"no whole request within {REQUEST_TIMEOUT_MS / 1000:g} s"
            return json_response({"error": reason}, HTTPStatus.REQUEST_TIMEOUT)
        except BadRequest as refusal:
            return json_response({"error": str(refusal)}, refusal.status, refusal.headers)
        except asyncio.IncompleteReadError:
            self.closed["half-request"] += 1
            return None
        except NotSecured as reason:
            self.closed["tls"] += 1
            _LOGGER.info("%s does not get on with our TLS: %s", peer_of(writer), reason)
            return None
        except ConnectionError:
            self.closed["reset"] += 1
            return None
        except Exception:
            _LOGGER.exception("a request over HTTP failed in our code")
            return json_response(
                {"error": "failed in the node's own code; its log says where"},
                HTTPStatus.INTERNAL_SERVER_ERROR,
            )

    def _refuse_strangers(self, request: Request) -> None:
        """A page in a browser on this machine can reach us too. It comes with its own origin, or
        by a name that its owner made point here; neither is let in."""
        host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
        if self._loopback and not is_local(host):
            reason = f"Host {host!r} is not a name of this machine: use 127.0.0.1"
            raise BadRequest(HTTPStatus.MISDIRECTED_REQUEST, reason)
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
            raise BadRequest(HTTPStatus.FORBIDDEN, f"pages of {origin!r} may not ask a node")

    async def _pass_on(
        self,
        stream: AsyncGenerator[bytes, None],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Until the stream ends or the client hangs up: it has nothing more to say."""
        gone = tasks.begin(reader.read(1))
        pump = tasks.begin(self._pump(stream, writer))
        try:
            await asyncio.wait([pump, gone], return_when=asyncio.FIRST_COMPLETED)
            if pump.done():
                pump.result()
        finally:
            for each in (pump, gone):
                each.cancel()
            await asyncio.wait([pump, gone])
            if not gone.cancelled():
                gone.exception()  # how it hung up does not matter
            await stream.aclose()

    async def _pump(
        self, stream: AsyncGenerator[bytes, None], writer: asyncio.StreamWriter
    ) -> None:
        async for piece in stream:
            await send(writer, piece)
        self.closed["fell-behind"] += 1


def peer_of(writer: asyncio.StreamWriter) -> str:
    name = writer.get_extra_info("peername")
    return str(name[0]) if name else ""  # none if it has gone already


def certificate_of(writer: asyncio.StreamWriter) -> bytes | None:
    session = writer.get_extra_info("ssl_object")
    return None if session is None else session.getpeercert(binary_form=True)


async def send(writer: asyncio.StreamWriter, data: bytes) -> None:
    """TimeoutError if the client does not take it."""
    writer.write(data)
    async with tasks.within(WRITE_TIMEOUT_MS):
        await writer.drain()


async def read_request(reader: asyncio.StreamReader) -> Request:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise BadRequest(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"more than {HEAD_MAX_BYTES} bytes of head"
        ) from None
    lines = head[:-4].decode("latin-1").split("\r\n")
    method, target = parse_request_line(lines[0])
    headers = parse_headers(lines[1:])
    parts = urlsplit(target)
    body = await reader.readexactly(body_size(method, headers))
    return Request(method, parts.path, dict(parse_qsl(parts.query)), headers, body)


def parse_request_line(line: str) -> tuple[str, str]:
    parts = line.split(" ")
    if len(parts) != 3 or parts[2] not in ("HTTP/1.1", "HTTP/1.0"):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "not an HTTP/1.1 request")
    method, target, _ = parts
    if method not in METHODS:
        allowed = ", ".join(METHODS)
        raise BadRequest(HTTPStatus.METHOD_NOT_ALLOWED, f"{method[:20]!r} is none of {allowed}")
    if not target.startswith("/") or target.startswith("//"):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "the target has to be a path, such as /metrics")
    return method, target


def parse_headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or "\n" in line or "\r" in line:
            raise BadRequest(HTTPStatus.BAD_REQUEST, "a line of the head is no header")
        if name.lower() in headers:
            raise BadRequest(HTTPStatus.BAD_REQUEST, f"header {name[:40]!r} is there twice")
        headers[name.lower()] = value.strip()
    return headers


def body_size(method: str, headers: Mapping[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise BadRequest(HTTPStatus.LENGTH_REQUIRED, "bodies need a Content-Length")
    length = headers.get("content-length")
    if length is None:
        if method == "POST":
            raise BadRequest(HTTPStatus.LENGTH_REQUIRED, "POST needs a Content-Length")
        return 0
    if not (length.isascii() and length.isdigit()):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "Content-Length is not a number")
    if len(length) > 9 or int(length) > BODY_MAX_BYTES:
        reason = f"bodies have at most {BODY_MAX_BYTES} bytes"
        raise BadRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason)
    return int(length)


def head_of(response: Response) -> bytes:
    lines = [
        f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}",
        f"Content-Type: {response.content_type}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
        *(f"{name}: {value}" for name, value in response.headers),
    ]
    if response.stream is None:
        lines.append(f"Content-Length: {len(response.body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def is_local(host: str) -> bool:
    if host in LOCAL_NAMES:
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)  # how a socket for both names an IPv4 peer
    return (mapped or address).is_loopback
