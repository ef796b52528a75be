"""Server-sent events as an answer."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tidelog.client.errors import ClientError
from tidelog.host.ports import NetworkError

KEEP_ALIVE = b": still here\n\n"
RETRY = b"retry: 1000\n\n"
TAKE_WITHIN_SECONDS = 30
"""Who takes nothing for so long is let go; it may come back with the id of its last message."""

_LOGGER = logging.getLogger("tidelog.console")


def message(event: str, data: object, cursor: str | None = None) -> bytes:
    """JSON has no line ends, so one data line holds it."""
    head = "" if cursor is None else f"id: {cursor}\n"
    return f"{head}event: {event}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


class EventStream(Response):
    """Messages until they end, the client goes, or it takes nothing any more."""

    media_type = "text/event-stream"

    def __init__(self, messages: AsyncGenerator[bytes, None]) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._messages = messages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        pump = asyncio.ensure_future(self._pump(send))
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait([pump, gone], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in (pump, gone):
                each.cancel()
            await asyncio.gather(pump, gone, return_exceptions=True)

    async def _pump(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        try:
            async with aclosing(self._messages) as messages:
                async for each in messages:
                    async with asyncio.timeout(TAKE_WITHIN_SECONDS):
                        await send({"type": "http.response.body", "body": each, "more_body": True})
        except (ClientError, NetworkError) as reason:
            error = message("error", {"error": str(reason), "try": "tidelog cluster health"})
            await send({"type": "http.response.body", "body": error, "more_body": True})
        except TimeoutError:
            return
        except Exception:
            _LOGGER.exception("a stream failed in our code")
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


def stream_response(messages: AsyncGenerator[bytes, None]) -> EventStream:
    return EventStream(messages)
