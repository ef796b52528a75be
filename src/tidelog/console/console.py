"""What the handlers of requests share: the cluster, its users, and what is known of it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from starlette.requests import Request

from tidelog.console.chaos import Chaos
from tidelog.console.hub import NO_BROKER, Hub
from tidelog.console.lab_desk import LabDesk
from tidelog.console.place import Place
from tidelog.console.refusal import Refused
from tidelog.console.sessions import Session, Sessions

MOST_VIEWERS = 64


class Console:
    """Made when the server starts, inside its loop; closed when it stops."""

    __slots__ = ("chaos", "closing", "cluster_id", "hub", "lab", "place", "sessions", "viewers")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.sessions = Sessions(place)
        self.hub = None if place.nodes is None else Hub(place.nodes)
        self.chaos = None if place.nodes is None else Chaos(place.nodes.directory)
        self.cluster_id: str | None = None
        """Of a polled cluster, once it has said it."""
        self.lab = LabDesk(place.told_seeds, place.lab_directory)
        self.viewers = 0
        self.closing = asyncio.Event()
        """Streams end when it is set."""

    @contextmanager
    def viewing(self) -> Iterator[None]:
        """One stream more, while it is open."""
        self.viewers += 1
        try:
            yield
        finally:
            self.viewers -= 1

    def end_streams(self) -> None:
        self.closing.set()
        if self.hub is not None:
            self.hub.wake_viewers()

    async def close(self) -> None:
        self.end_streams()
        await self.lab.close()
        if self.hub is not None:
            await self.hub.close()
        await self.sessions.close()


def console_of(request: Request) -> Console:
    console: Console = request.app.state.console
    return console


def refuse_many_viewers(console: Console) -> None:
    if console.viewers >= MOST_VIEWERS:
        reason = f"{MOST_VIEWERS} streams are open"
        raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, reason, "close a tab")


def session_of(request: Request) -> Session:
    """Refused if whoever asks has to log in first."""
    return console_of(request).sessions.of(request)


def asking_session_of(request: Request) -> Session:
    """For what only the cluster itself can answer: it is not asked if no broker runs, as it would
    be asked again and again for a quarter of a minute."""
    hub = console_of(request).hub
    session = session_of(request)
    if hub is not None and hub.is_gone:
        reason = f"{NO_BROKER}; what was known of it is on the overview"
        raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, reason, "tidelog ps")
    return session
