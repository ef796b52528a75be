"""What the HTTP port of a node tells somebody who shows nothing."""

import asyncio
import http.client
import ssl
from typing import Final, NamedTuple

from tidelog.cli.secure.strangers import (
    SILENCE,
    WITHIN_S,
    Address,
    certificate_end,
    trusting_anybody,
)

HTTP_OK: Final = 200


class Page(NamedTuple):
    """The port, through the eyes of a stranger. Status 0: no answer."""

    tls: bool = False
    expires_ms: int | None = None
    state: int = 0
    chaos: int = 0


async def look(address: Address) -> Page:
    """Only GET: nothing is broken."""
    context = trusting_anybody()
    has_tls, expires_ms = await certificate_end(address, context)
    tls = context if has_tls else None
    state, chaos = [
        await asyncio.to_thread(_status, address, tls, path) for path in ("/state", "/chaos")
    ]
    return Page(has_tls, expires_ms, state, chaos)


def _status(address: Address, tls: ssl.SSLContext | None, path: str) -> int:
    host, port = address
    connection = http.client.HTTPConnection(host, port, timeout=WITHIN_S)
    if tls is not None:
        connection = http.client.HTTPSConnection(host, port, timeout=WITHIN_S, context=tls)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (*SILENCE, http.client.HTTPException):
        return 0
    finally:
        connection.close()
