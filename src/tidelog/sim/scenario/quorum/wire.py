"""Messages on their way: delivered in order and at once, unless the story says otherwise."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from tidelog.sim.scenario.quorum.messages import CLIENT, Envelope

ANY = -1


class Route(NamedTuple):
    """`1->2 vote`: which messages are meant. Without a kind, all of them."""

    source: int
    target: int
    kind: str | None

    def covers(self, envelope: Envelope) -> bool:
        return (
            self.source in (ANY, envelope.source)
            and self.target in (ANY, envelope.target)
            and self.kind in (None, envelope.kind)
        )


class QuorumWire:
    def __init__(self) -> None:
        self.gates: list[Route] = []
        self.held: list[Envelope] = []
        self.under_way: deque[Envelope] = deque()
        self._cuts: list[tuple[int, int]] = []

    def catches(self, envelope: Envelope) -> bool:
        """True when a gate keeps this message until the story delivers or drops it."""
        if any(gate.covers(envelope) for gate in self.gates):
            self.held.append(envelope)
            return True
        return False

    def find_held(self, route: Route) -> Envelope | None:
        return next((envelope for envelope in self.held if route.covers(envelope)), None)

    def forget(self, address: int) -> None:
        """A process is gone: what it has not received it will not receive."""
        self.under_way = deque(e for e in self.under_way if e.target != address)

    def cut(self, one: int, other: int) -> None:
        self._cuts.append(_pair(one, other))

    def heal(self) -> None:
        self._cuts.clear()

    def connects(self, envelope: Envelope) -> bool:
        if CLIENT in (envelope.source, envelope.target):
            return True
        return _pair(envelope.source, envelope.target) not in self._cuts


def _pair(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)
