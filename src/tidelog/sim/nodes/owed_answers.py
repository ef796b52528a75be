"""Requests that a node of a healed cluster owes an answer to, and for how long."""

from collections.abc import Iterable
from typing import Final, cast

from tidelog.host.server import FrameServer, ServerConnection
from tidelog.sim.nodes.server import Server

FORGOTTEN: Final = "L4 every request is answered"
LONGEST_MS: Final = 12_000
"""Longer than a fetch waits for records, or members of a group for one another."""


class OwedAnswers:
    """To be asked again and again. The oldest request of a connection is the one that counts:
    those behind it wait for its answer."""

    __slots__ = ("_since_ms",)

    def __init__(self) -> None:
        self._since_ms: dict[object, int] = {}

    def overdue(self, servers: Iterable[Server], now_ms: int) -> str | None:
        """In words; None if everybody may still hope."""
        owed: dict[object, int] = {}
        found: str | None = None
        for server in servers:
            for connection in _connections(server):
                if connection.open_requests:
                    oldest = connection._slots[0]
                    since_ms = owed[oldest] = self._since_ms.get(oldest, now_ms)
                    if now_ms - since_ms >= LONGEST_MS and found is None:
                        waited_s = (now_ms - since_ms) // 1000
                        found = f"node {server.node_id} owes {connection.peer} one for {waited_s} s"
        self._since_ms = owed
        return found


def _connections(server: Server) -> list[ServerConnection]:
    if server.node is None:
        return []
    listeners = cast("list[FrameServer]", server.node._listeners)
    return [connection for listener in listeners for connection in listener.connections]
