"""When fetches that wait for appends are answered: not in every turn of a busy event loop.

A round of fetching (answer, append, next fetch, high watermark) costs the nodes as much as several
small requests, however little it carries. When many clients write at the same time, the next turn
of the loop brings more to carry. That turn has to run anyway, so waiting for it costs no time.
There is no waiting for an idle loop: a turn that brings nothing is the last.
"""

GATHER_TURNS = 5
GATHER_BYTES = 64 * 1024
"""At the latest after so many turns or bytes: large batches are better sent while others come."""

SHARED_FROM = 1.25
"""Moves in a usual look from which on more are worth waiting for."""


class Gathering:
    """Whether a look may wait for another turn of the loop, which may bring more to be seen.

    Only where several write at once: after a single append nothing follows before it is
    answered, and the turn would be lost.
    """

    __slots__ = ("_bytes_in", "_seen", "_turns", "_usual", "moves")

    def __init__(self) -> None:
        self.moves = 0
        """Since the last look."""
        self._seen = 0
        self._usual = 1.0
        """How many moves a look sees, of late."""
        self._turns = 0
        self._bytes_in = 0

    @property
    def is_shared(self) -> bool:
        return self.moves > 1 or self._usual > SHARED_FROM

    def goes_on(self, bytes_in: int) -> bool:
        """Asked once in every turn; `bytes_in` is what was produced to this broker so far."""
        moved, self._seen = self.moves > self._seen, self.moves
        self._turns += 1
        if (
            moved
            and self.is_shared
            and self._turns <= GATHER_TURNS
            and bytes_in - self._bytes_in < GATHER_BYTES
        ):
            return True
        self._usual += (self.moves - self._usual) / 8
        self.moves = self._seen = self._turns = 0
        self._bytes_in = bytes_in
        return False
