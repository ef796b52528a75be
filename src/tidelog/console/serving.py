"""The console as a process: one listening socket, until it is told to stop."""

import asyncio
import ipaddress
import secrets
import socket
from collections.abc import Callable
from typing import NamedTuple

import uvicorn
from starlette.applications import Starlette

from tidelog.console.app import build
from tidelog.console.console import Console
from tidelog.console.place import Place
from tidelog.host import event_loop

STOP_WITHIN_SECONDS = 2
MOST_CONNECTIONS = 256


class ConsoleServer(uvicorn.Server):
    """Streams have no end of their own, so they are ended before connections are waited for."""

    def __init__(self, config: uvicorn.Config, app: Starlette) -> None:
        super().__init__(config)
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        console: Console = self._app.state.console
        console.end_streams()
        await super().shutdown(sockets)


class CannotListen(Exception):  # noqa: N818 - it names what is so
    """The address cannot be had."""


class Address(NamedTuple):
    host: str
    port: int
    or_any_port: bool = False
    """Another port will do if this one is taken."""


def listen(address: Address) -> socket.socket:
    try:
        return _bind(address.host, address.port)
    except OSError as reason:
        if address.or_any_port:
            return listen(Address(address.host, 0))
        words = (reason.strerror or str(reason)).lower()
        raise CannotListen(f"{address.host}:{address.port}: {words}") from None


def _bind(host: str, port: int) -> socket.socket:
    family, kind, _, _, found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, kind)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(found)
        listening.listen(128)
    except OSError:
        listening.close()
        raise
    return listening


def is_loopback(listening: socket.socket) -> bool:
    return ipaddress.ip_address(listening.getsockname()[0]).is_loopback


def url_of(listening: socket.socket, token: str | None) -> str:
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}" + (f"/?token={token}" if token else "")


def serve(
    place: Place, listening: socket.socket, token: str | None, ready: Callable[[str], None]
) -> None:
    """Until SIGTERM or Ctrl-C. `ready` is told the address when requests are answered."""
    loopback = is_loopback(listening)
    if not loopback and not token:
        token = secrets.token_urlsafe(18)
    app = build(place, loopback=loopback, token=token)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=STOP_WITHIN_SECONDS,
        limit_concurrency=MOST_CONNECTIONS,
    )
    event_loop.run(
        _serve(ConsoleServer(config, app), listening, lambda: ready(url_of(listening, token)))
    )


async def _serve(
    server: uvicorn.Server, listening: socket.socket, ready: Callable[[], None]
) -> None:
    serving = asyncio.ensure_future(server.serve([listening]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    if server.started:
        ready()
    await serving
