"""`/api/stream`: what happens, as it happens."""

import asyncio
from collections.abc import AsyncGenerator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidelog.console import sse
from tidelog.console.console import session_of

KEEP_ALIVE_SECONDS = 10


async def stream(request: Request) -> Response:
    session_of(request)
    return sse.stream_response(tell())


async def tell() -> AsyncGenerator[bytes, None]:
    yield sse.RETRY
    yield sse.message("frame", {"events": []})
    while True:
        await asyncio.sleep(KEEP_ALIVE_SECONDS)
        yield sse.KEEP_ALIVE


ROUTES = [Route("/api/stream", stream, methods=["GET"])]
