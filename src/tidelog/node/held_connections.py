"""The broker's listeners: open from the start, so that a refused connection means a dead process;
connections wait until the broker serves, so that no client sees an empty cluster.

A connection does not wait here forever. A client whose connection is closed asks another broker;
one that gets no answer stays with this one until its own timeout, which may be minutes. So the
usual wait, while a node starts, ends with an answer; a long wait ends with the connection closed.
"""

import logging
from collections.abc import Callable

from tidelog.host.node_host import NodeHost
from tidelog.host.ports import CloseReason, PeerConnection, RequestHandler, ResponseSlot
from tidelog.host.timers import Timer

LONGEST_WAIT_MS = 10_000
"""As long as librdkafka waits for its first answer; Java's clients wait longer."""

_LOGGER = logging.getLogger("tidelog.node")


class HeldConnections:
    """Connections wait here until `open_all`, or until they have waited too long."""

    __slots__ = ("_host", "_opened", "_timer", "_waiting")

    def __init__(self, host: NodeHost) -> None:
        self._host = host
        self._opened = False
        self._waiting: dict[PeerConnection, int] = {}
        """Since when, oldest first."""
        self._timer: Timer | None = None

    def guard(
        self, accept: Callable[[PeerConnection], RequestHandler]
    ) -> Callable[[PeerConnection], RequestHandler]:
        def hold(connection: PeerConnection) -> RequestHandler:
            handler = accept(connection)
            if self._opened:
                return handler
            connection.pause()
            self._waiting[connection] = self._host.now_ms()
            self._arm()
            return Held(handler, connection, self._waiting)

        return hold

    def open_all(self) -> None:
        self._opened = True
        self._disarm()
        waiting, self._waiting = self._waiting, {}
        for connection in waiting:
            connection.resume()

    def _arm(self) -> None:
        if self._timer is None and self._waiting:
            oldest_ms = next(iter(self._waiting.values()))
            self._timer = self._host.timers.add(oldest_ms + LONGEST_WAIT_MS, self._send_away)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _send_away(self) -> None:
        self._timer = None
        latest_ms = self._host.now_ms() - LONGEST_WAIT_MS
        late = [each for each, since_ms in self._waiting.items() if since_ms <= latest_ms]
        for connection in late:
            del self._waiting[connection]
            connection.close()
        if late:
            _LOGGER.warning(
                "closed %d connections of clients that waited for %d s: this broker does not serve "
                "yet, see /healthz",
                len(late),
                LONGEST_WAIT_MS // 1000,
            )
        self._arm()


class Held:
    """A connection that came early."""

    __slots__ = ("_connection", "_handler", "_waiting")

    def __init__(
        self,
        handler: RequestHandler,
        connection: PeerConnection,
        waiting: dict[PeerConnection, int],
    ) -> None:
        self._handler = handler
        self._connection = connection
        self._waiting = waiting

    def on_request(self, frame: memoryview, slot: ResponseSlot) -> None:
        self._handler.on_request(frame, slot)

    def on_closed(self, reason: CloseReason) -> None:
        self._waiting.pop(self._connection, None)
        self._handler.on_closed(reason)
