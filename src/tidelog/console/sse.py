"""Server-sent events as an answer."""

import json
from collections.abc import AsyncGenerator

from starlette.responses import StreamingResponse

KEEP_ALIVE = b": still here\n\n"
RETRY = b"retry: 1000\n\n"


def message(event: str, data: object, cursor: str | None = None) -> bytes:
    """JSON has no line ends, so one data line holds it."""
    head = "" if cursor is None else f"id: {cursor}\n"
    return f"{head}event: {event}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def stream_response(messages: AsyncGenerator[bytes, None]) -> StreamingResponse:
    return StreamingResponse(
        messages, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
    )
