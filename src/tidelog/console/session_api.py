"""`/api/session`, `/api/login`, `/api/logout`."""

import asyncio
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tidelog.client.errors import ClientError
from tidelog.console.access import Rights
from tidelog.console.bodies import json_body
from tidelog.console.console import Console, console_of, session_of
from tidelog.console.sessions import COOKIE, LONGEST_SECONDS, Session
from tidelog.host.ports import NetworkError

ANSWER_WITHIN_SECONDS = 0.5


async def get_session(request: Request) -> Response:
    console = console_of(request)
    return JSONResponse(await document_of(console, console.sessions.find(request)))


async def log_in(request: Request) -> Response:
    console = console_of(request)
    console.sessions.check_csrf(request, console.sessions.stranger_csrf)
    body = await json_body(request)
    peer = request.client.host if request.client is not None else ""
    session = await console.sessions.log_in(body.get("user"), body.get("password"), peer)
    answer = JSONResponse(await document_of(console, session))
    answer.set_cookie(
        COOKIE, session.id, max_age=LONGEST_SECONDS, httponly=True, samesite="strict", path="/"
    )
    return answer


async def log_out(request: Request) -> Response:
    console = console_of(request)
    await console.sessions.log_out(session_of(request))
    answer = JSONResponse(await document_of(console, None))
    answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return answer


async def document_of(console: Console, session: Session | None) -> dict[str, Any]:
    place = console.place
    rights = Rights(False, False, False)
    if session is not None:
        rights = await session.access.rights(session.client)
    return {
        "cluster": place.name,
        "cluster_id": await cluster_id_of(console, session),
        "mode": place.mode,
        "secure": place.wants_login,
        "user": None if session is None else session.user,
        "may": {
            "chaos": rights.may_alter and place.nodes is not None,
            "produce": session is not None,
            "admin": rights.may_create,
        },
        "lab": None,
        "bootstrap_servers": place.bootstrap_servers,
        "csrf": console.sessions.stranger_csrf if session is None else session.csrf,
    }


async def cluster_id_of(console: Console, session: Session | None) -> str | None:
    """Asked once; None while the cluster does not say."""
    if console.place.nodes is not None:
        return console.place.nodes.state.cluster_id
    if console.cluster_id is None and session is not None:
        with suppress(TimeoutError, ClientError, NetworkError):
            async with asyncio.timeout(ANSWER_WITHIN_SECONDS):
                console.cluster_id = (await session.client.brokers()).cluster_id
    return console.cluster_id


ROUTES = [
    Route("/api/session", get_session, methods=["GET"]),
    Route("/api/login", log_in, methods=["POST"]),
    Route("/api/logout", log_out, methods=["POST"]),
]
