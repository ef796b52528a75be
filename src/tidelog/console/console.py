"""What the handlers of requests share: the cluster, its users, and what is known of it."""

from starlette.requests import Request

from tidelog.console.place import Place
from tidelog.console.sessions import Session, Sessions


class Console:
    """Made when the server starts, inside its loop; closed when it stops."""

    __slots__ = ("place", "sessions")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.sessions = Sessions(place)

    async def close(self) -> None:
        await self.sessions.close()


def console_of(request: Request) -> Console:
    console: Console = request.app.state.console
    return console


def session_of(request: Request) -> Session:
    """Refused if whoever asks has to log in first."""
    return console_of(request).sessions.of(request)
