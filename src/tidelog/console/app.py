"""The application: routes, and the guard around them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Route

from tidelog.console import (
    balance_api,
    chaos_api,
    controller_api,
    errors,
    groups_api,
    lab_api,
    overview_api,
    records_api,
    session_api,
    static_files,
    stream_api,
    topics_api,
)
from tidelog.console.console import Console
from tidelog.console.guard import Guard
from tidelog.console.place import Place
from tidelog.console.refusal import Refused, on_refused

API_ROUTES: list[BaseRoute] = [
    *session_api.ROUTES,
    *overview_api.ROUTES,
    *balance_api.ROUTES,
    *stream_api.ROUTES,
    *topics_api.ROUTES,
    *records_api.ROUTES,
    *groups_api.ROUTES,
    *chaos_api.ROUTES,
    *controller_api.ROUTES,
    *lab_api.ROUTES,
]
PAGE_ROUTES: list[BaseRoute] = [
    Route("/static/{path:path}", static_files.static_file, methods=["GET"]),
    Route("/{path:path}", static_files.page, methods=["GET"]),
]


def build(place: Place, *, loopback: bool, token: str | None = None) -> Starlette:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.console = console = Console(place)
        try:
            yield
        finally:
            await console.close()

    return Starlette(
        routes=[*API_ROUTES, *PAGE_ROUTES],
        middleware=[Middleware(Guard, loopback=loopback, token=token)],
        exception_handlers={Refused: on_refused, **errors.HANDLERS},
        lifespan=lifespan,
    )
