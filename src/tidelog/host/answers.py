"""How much memory a node may use for answers that their readers have not taken.

An answer is owed from the moment it is made until the last byte of it is with the kernel: while it
waits for an answer before it, for the end of the turn, and in the transport, which keeps all it
was given whole until it has sent all of it. One owner counts them for the whole node, so that the
bound does not depend on how many connections ask, in which order, or how long they wait first.
(Requests that this node writes to others are kept in the same way, and count the same.)

- Below the first limit, an answer of records may be as large as what is left.
- Between the limits it is small, so that who reads gets on.
- From the second limit on there is none, and who has owed longest is hung up on, until there is
  room again.
"""

from typing import Protocol

SMALL_FROM_BYTES = 64 * 1024 * 1024
LIMIT_BYTES = 2 * SMALL_FROM_BYTES
SMALL_ANSWER_BYTES = 64 * 1024
"""A whole batch is answered also then, however large."""


class Owing(Protocol):
    """A connection whose peer has not taken its answers."""

    @property
    def owed_bytes(self) -> int: ...

    def hang_up(self) -> None:
        """End it. What it owes is given back when it has ended, which may be later."""
        ...


class AnswerBudget:
    """The answers in memory of a whole node."""

    __slots__ = (
        "_leaving",
        "_owing",
        "limit_bytes",
        "owed_bytes",
        "peak_bytes",
        "small_from_bytes",
    )

    def __init__(
        self, small_from_bytes: int = SMALL_FROM_BYTES, limit_bytes: int = LIMIT_BYTES
    ) -> None:
        assert 0 < small_from_bytes < limit_bytes, (small_from_bytes, limit_bytes)
        self.small_from_bytes = small_from_bytes
        self.limit_bytes = limit_bytes
        self.owed_bytes = 0
        self.peak_bytes = 0
        self._owing: dict[Owing, None] = {}  # the longest first
        self._leaving: dict[Owing, None] = {}  # hung up on, and not yet ended

    @property
    def allowance_bytes(self) -> int:
        """How large the next answer of records may be. 0: there must be none."""
        if self.owed_bytes >= self.limit_bytes:
            return 0
        return max(self.small_from_bytes - self.owed_bytes, SMALL_ANSWER_BYTES)

    @property
    def owing(self) -> int:
        """Connections that have not taken their answers."""
        return len(self._owing)

    def charge(self, size_bytes: int) -> None:
        self.owed_bytes += size_bytes

    def release(self, size_bytes: int) -> None:
        assert size_bytes <= self.owed_bytes, (size_bytes, self.owed_bytes)
        self.owed_bytes -= size_bytes

    def wait(self, connection: Owing) -> None:
        """It was charged, and has not taken all of it at once."""
        if connection not in self._leaving:
            self._owing.setdefault(connection)
        self.peak_bytes = max(self.peak_bytes, self.owed_bytes)
        if self.owed_bytes >= self.limit_bytes:
            self._make_room()

    def settle(self, connection: Owing) -> None:
        """It owes nothing any more, or has ended."""
        self._owing.pop(connection, None)
        self._leaving.pop(connection, None)

    def _make_room(self) -> None:
        """Half way back to the first limit, so that this is not done for every answer. Who owes
        less than the mean is spared: hanging up on him would help nobody."""
        wanted_bytes = (self.small_from_bytes + self.limit_bytes) // 2
        excess_bytes = self.owed_bytes - wanted_bytes
        excess_bytes -= sum(each.owed_bytes for each in self._leaving)
        total_bytes = sum(each.owed_bytes for each in self._owing)
        while excess_bytes > 0 and total_bytes > 0:
            count = len(self._owing)
            victim = next(c for c in self._owing if c.owed_bytes * count >= total_bytes)
            del self._owing[victim]
            self._leaving[victim] = None
            excess_bytes -= victim.owed_bytes
            total_bytes -= victim.owed_bytes
            victim.hang_up()
