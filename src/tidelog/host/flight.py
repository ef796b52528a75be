"""How much memory the requests of all connections may use together, and how they ended, counted.

A request is in flight from the moment its frame is granted memory until its answer has left (or
it is known to have none). Kafka leaves the cap of a node off (`queued.max.request.bytes`); ours is
always on.
"""

from typing import Protocol

from tidelog.host.ports import CloseReason

REQUEST_OVERHEAD_BYTES = 512
"""Charged for every request besides its frame: slot, decoded objects, bookkeeping. Without it,
a flood of tiny frames would look like nothing."""


class Waiting(Protocol):
    """A connection that stopped reading because the node's budget was used up."""

    def budget_freed(self) -> bool:
        """True if it will now try again, and call `wake_next` after that."""
        ...


class NodeFlight:
    """The request bytes in flight of a whole node.

    A frame is granted while anything is left, so the limit is passed by one frame at most, and
    a frame as large as the whole budget is not stuck forever. No budget stops a frame that was
    granted: connections stopped in the middle of frames that hold it would be a deadlock.
    """

    __slots__ = ("_waiting", "limit_bytes", "peak_bytes", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        assert limit_bytes > 0, limit_bytes
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.peak_bytes = 0
        self._waiting: dict[Waiting, None] = {}

    @property
    def exhausted(self) -> bool:
        return self.used_bytes >= self.limit_bytes

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def charge(self, size_bytes: int) -> None:
        used_bytes = self.used_bytes = self.used_bytes + size_bytes
        self.peak_bytes = max(self.peak_bytes, used_bytes)

    def release(self, size_bytes: int) -> None:
        assert size_bytes <= self.used_bytes, (size_bytes, self.used_bytes)
        self.used_bytes -= size_bytes
        if self._waiting:
            self.wake_next()

    def wait(self, connection: Waiting) -> None:
        self._waiting[connection] = None

    def forget(self, connection: Waiting) -> None:
        self._waiting.pop(connection, None)

    def wake_next(self) -> None:
        """One at a time, longest wait first: each wakes the next after it has taken its share."""
        while self._waiting and self.used_bytes < self.limit_bytes:
            connection = next(iter(self._waiting))
            del self._waiting[connection]
            if connection.budget_freed():
                return


class NetworkCounters:
    """Totals since the start of the process."""

    __slots__ = ("accepted", "bytes_in", "bytes_out", "closed", "frames_in", "frames_out", "writes")

    def __init__(self) -> None:
        self.accepted = 0
        self.frames_in = 0
        self.frames_out = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.writes = 0
        self.closed: dict[CloseReason, int] = dict.fromkeys(CloseReason, 0)
