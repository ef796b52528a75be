"""Messages that a story keeps on the wire, and connections that it cuts.

A gate catches the next message of its kind, once. What was caught stays until the story
delivers or drops it; everything else arrives at once.
"""

from collections.abc import Iterable

FETCH = "fetch"
ANSWER = "answer"
PROPOSAL = "proposal"
RESULT = "result"
REGISTRATION = "registration"
HEARTBEAT = "heartbeat"
PRODUCE = "produce"

KINDS = (FETCH, ANSWER, PROPOSAL, RESULT, REGISTRATION, HEARTBEAT, PRODUCE)
"""A fetch and its answer, an AlterPartition proposal and its result, …"""

CONTROLLER = -2
"""The controller as the other end of a connection."""


class Wire:
    def __init__(self) -> None:
        self._gates: list[tuple[str, int]] = []
        self._held: dict[tuple[str, int], object] = {}
        self._cuts: list[tuple[int, int]] = []

    def hold_next(self, kind: str, broker: int) -> None:
        assert kind in KINDS, kind
        self._gates.append((kind, broker))

    def catches(self, kind: str, broker: int, message: object) -> bool:
        """True when a gate was waiting for this message, which now stays on the wire."""
        if (kind, broker) not in self._gates:
            return False
        self._gates.remove((kind, broker))
        self._held[kind, broker] = message
        return True

    def take(self, kind: str, broker: int) -> object | None:
        """The message that was caught, no longer on the wire."""
        return self._held.pop((kind, broker), None)

    def cut(self, broker: int, others: Iterable[int]) -> None:
        for other in others:
            if self.connects(broker, other):
                self._cuts.append(_pair(broker, other))

    def heal(self, broker: int) -> None:
        self._cuts = [pair for pair in self._cuts if broker not in pair]

    def connects(self, one: int, other: int) -> bool:
        return _pair(one, other) not in self._cuts


def _pair(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)
