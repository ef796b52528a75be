"""The broker's listeners: open from the start, so that a refused connection means a dead process;
quiet until the broker serves, so that nobody is told about an empty cluster."""

from collections.abc import Callable

from tidelog.host.ports import CloseReason, PeerConnection, RequestHandler, ResponseSlot


class Doors:
    """Connections wait here until `open_all`."""

    __slots__ = ("_opened", "_waiting")

    def __init__(self) -> None:
        self._opened = False
        self._waiting: dict[PeerConnection, None] = {}

    def guard(
        self, accept: Callable[[PeerConnection], RequestHandler]
    ) -> Callable[[PeerConnection], RequestHandler]:
        def hold(connection: PeerConnection) -> RequestHandler:
            handler = accept(connection)
            if self._opened:
                return handler
            connection.pause()
            self._waiting[connection] = None
            return Held(handler, connection, self._waiting)

        return hold

    def open_all(self) -> None:
        self._opened = True
        waiting, self._waiting = self._waiting, {}
        for connection in waiting:
            connection.resume()


class Held:
    """A connection that came early."""

    __slots__ = ("_connection", "_handler", "_waiting")

    def __init__(
        self,
        handler: RequestHandler,
        connection: PeerConnection,
        waiting: dict[PeerConnection, None],
    ) -> None:
        self._handler = handler
        self._connection = connection
        self._waiting = waiting

    def on_request(self, frame: memoryview, slot: ResponseSlot) -> None:
        self._handler.on_request(frame, slot)

    def on_closed(self, reason: CloseReason) -> None:
        self._waiting.pop(self._connection, None)
        self._handler.on_closed(reason)
