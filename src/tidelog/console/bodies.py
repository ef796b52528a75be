"""Bodies of requests: JSON objects, and nothing else."""

import asyncio
import json
from http import HTTPStatus
from typing import Any

from starlette.requests import Request

from tidelog.console.refusal import Refused, bad_input

BODY_WITHIN_SECONDS = 10


async def json_body(request: Request) -> dict[str, Any]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/json":
        error = "Content-Type has to be application/json"
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, error)
    try:
        async with asyncio.timeout(BODY_WITHIN_SECONDS):
            document = json.loads(await request.body())
    except TimeoutError:
        error = f"no whole body within {BODY_WITHIN_SECONDS} s"
        raise Refused(HTTPStatus.REQUEST_TIMEOUT, error) from None
    except (ValueError, RecursionError):
        raise bad_input("the body is not JSON") from None
    if not isinstance(document, dict):
        raise bad_input("the body has to be a JSON object")
    return document
