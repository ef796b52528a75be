"""The wires of the quorum stage: frames arrive at once, or are lost without a word.

Nothing here refuses or resets a connection, unless a story gives a `hint`: whoever is cut off or
dead is silent. Routes say which messages a story holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tidelog.host.ports import (
    CloseReason,
    NetworkError,
    PeerRefused,
    PeerReset,
    PeerTimedOut,
    PeerUnreachable,
)
from tidelog.sim.kernel import WORLD, Kernel
from tidelog.sim.scenario.quorum.messages import Envelope
from tidelog.sim.scenario.wires import (
    TURNS_OF_A_FRAME,
    Address,
    Gate,
    Line,
    Question,
    StoryNetwork,
    Wires,
)

ANY = -1
REFUSED, ACCEPTED, UNANSWERED = "refused", "accepted", "unanswered"


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


class Hint(NamedTuple):
    """A node whose connections have closed, and what comes of connecting to it again."""

    node: int
    outcome: str
    tell: Callable[[int], None]


class SilentWires(Wires):
    def __init__(self, kernel: Kernel, gate: Gate, lag_us: Callable[[int], int]) -> None:
        super().__init__(kernel, gate)
        self._lag_us = lag_us
        self.hint: Hint | None = None
        self.booting: int | None = None
        """Whose network is not up yet."""

    def lag_us(self, owner: int) -> int:
        return self._lag_us(owner)

    def cut(self, one: int, other: int) -> None:
        self._cuts[min(one, other), max(one, other)] = None

    def on_process_gone(self, network: StoryNetwork, *, power_lost: bool) -> None:
        self.ports = {a: port for a, port in self.ports.items() if port.network is not network}

    def close_all(self, node: int) -> None:
        """Every connection of this node ends at its other end."""
        for line in sorted(self.lines, key=lambda line: line.source):
            if line.target == node:
                line.end_for_asker(PeerReset("closed"))
            elif line.source == node:
                line.end_for_asker(PeerReset("closed"))
                self.end_for_server(line, CloseReason.RESET_BY_PEER)

    def open_line(self, asker: StoryNetwork | None, address: Address) -> Line:
        hint, owner = self.hint, self.owners[address[0]]
        if asker is not None and asker.owner == self.booting:
            raise PeerUnreachable("the machine has no network yet")
        if hint is not None and asker is not None and owner == hint.node:
            hint.tell(asker.owner)
            if hint.outcome == REFUSED:
                raise PeerRefused("nobody listens")
            if hint.outcome == UNANSWERED:
                raise PeerTimedOut("no answer")
        line = Line(self, asker, address, self.ports.get(address))
        self.lines[line] = None
        return line

    def deliver_request(self, question: Question) -> None:
        line = question.line
        port = self.ports.get(line.address)
        if port is None:
            return
        if line.port is not port or line.handler is None:
            line.port = port
            self.perform_sooner(port.network, line.accept)
        perform = self.perform_sooner if question.is_first else self.perform
        perform(port.network, lambda: line.receive(question))

    def deliver_answer(self, question: Question) -> None:
        if question.line.asker is None:
            self.after_turns(TURNS_OF_A_FRAME, question.settle)
        else:
            super().deliver_answer(question)

    def after_turns(self, turns: int, step: Callable[[], None]) -> None:
        if turns:
            self.kernel.call_in(0, WORLD, lambda _: self.after_turns(turns - 1, step), None)
        else:
            step()

    def lose(self, question: Question, error: NetworkError | None = None) -> None:
        if error is not None:
            super().lose(question, error)
