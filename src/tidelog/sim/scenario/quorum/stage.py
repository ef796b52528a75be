"""The stage: machines, a wire between them and a clock, all in one thread.

Nothing happens by itself. A command makes something happen, `settle` delivers messages until
nobody has anything to say, and only `run_until` moves the clock. So a script always has one
output.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidelog.core.metadata.settings import ControllerSettings
from tidelog.core.quorum.messages import VoteRequest, VoterKey
from tidelog.core.quorum.state import QuorumSettings
from tidelog.sim.scenario.narrator import Narrator
from tidelog.sim.scenario.quorum.history import History
from tidelog.sim.scenario.quorum.machine import Machine
from tidelog.sim.scenario.quorum.messages import CLIENT, Call, Envelope, answer_text, envelope_text
from tidelog.sim.scenario.quorum.telling import Telling
from tidelog.sim.scenario.quorum.wire import QuorumWire
from tidelog.sim.scenario.script import ArgumentError

STEP_LIMIT = 100_000
_NAME = re.compile(r"([0-9]+)([a-z]?)")


class QuorumStage:
    def __init__(self) -> None:
        self.narrator = Narrator()
        self.telling = Telling(self)
        self.clear()

    def clear(self) -> None:
        """A new scene: nothing of the one before is left."""
        self.wire = QuorumWire()
        self.history = History()
        self.machines: dict[int, Machine] = {}
        self.voters: tuple[VoterKey, ...] = ()
        self.settings = QuorumSettings()
        self.controller_settings: ControllerSettings | None = None
        self.now_ms = 0
        self.campaigner: int | None = None
        """While set, requests of all other candidates get lost."""
        self._timed_from_ms: int | None = None
        self._open_calls: list[Call] = []
        self._agenda: deque[Callable[[], None]] = deque()
        self._uuids = 0

    def close(self) -> None:
        """The story is over."""
        self.machines.clear()

    # -- who is there

    def add_machine(self, name: str, disk_name: str | None = None) -> Machine:
        """`101` is node 101; `101b` is another machine that says it is node 101."""
        address, node_id = address_of(name)
        if address in self.machines:
            raise ArgumentError(f"there is a machine {name} already")
        key = VoterKey(node_id, f"disk-{disk_name or name}".encode())
        machine = self.machines[address] = Machine(self, address, name, key)
        return machine

    def machine(self, name: str) -> Machine:
        machine = self.machines.get(address_of(name)[0])
        if machine is None:
            known = ", ".join(machine.name for machine in self.machines.values())
            raise ArgumentError(f"there is no {name}: the story has {known or 'nobody yet'}")
        return machine

    def name_of(self, address: int) -> str:
        machine = self.machines.get(address)
        return "client" if machine is None else machine.name

    def active_machine(self) -> Machine | None:
        """The leader of the quorum; of two that think so, the one in the newer epoch."""
        leaders = [m for m in self.machines.values() if m.node and m.node.role == "leader"]
        return max(leaders, key=lambda machine: machine.running.epoch, default=None)

    def make_uuid(self) -> bytes:
        """Never random, never the same, and above the reserved ids."""
        self._uuids += 1
        return (1000 + self._uuids).to_bytes(16, "big")

    def draw_timeout(self, address: int, timeout_ms: int) -> int:
        return timeout_ms + (0 if address == self.campaigner else 100 * min(address, 9))

    # -- messages

    def post(self, envelope: Envelope) -> None:
        lost = (
            isinstance(envelope.message, VoteRequest)
            and self.campaigner is not None
            and envelope.source != self.campaigner
        )
        if not lost and self.wire.catches(envelope):
            self.line(f"{self._ends(envelope)} {envelope_text(envelope)} | held")
        elif not lost:
            self.wire.under_way.append(envelope)

    def post_first(self, envelope: Envelope) -> None:
        self.wire.under_way.appendleft(envelope)

    def post_call(self, call: Call) -> None:
        self._open_calls.append(call)
        self.post(Envelope(call.source, call.target, call.kind, call))

    def post_answer(self, call: Call) -> None:
        if call in self._open_calls:
            self._open_calls.remove(call)
            self.post(Envelope(call.target, call.source, f"{call.kind}-answer", call))

    def deliver(self, envelope: Envelope) -> None:
        """Hand over one message, unless nobody is there to receive it."""
        target = self.machines.get(envelope.target)
        message = envelope.message
        if target is None:
            assert isinstance(message, Call), message
            self.line(f"client: {answer_text(message)}")
        elif target.node is not None and self.wire.connects(envelope):
            target.receive(envelope)
        elif isinstance(message, Call) and target.node is None:
            self.on_lost(message)

    def deliver_held(self, envelope: Envelope, *, keep: bool) -> None:
        if not keep:
            self.wire.held.remove(envelope)
        self.line(f"{self._ends(envelope)} {envelope_text(envelope)}")
        self.deliver(envelope)

    def on_lost(self, call: Call) -> None:
        """Whoever asked notices that no answer will come."""
        if call in self._open_calls:
            self._open_calls.remove(call)
        asker = self.machines.get(call.source)
        if asker is None:
            self.line(f"client: {call.text} | no answer")
        elif asker.broker is not None:
            asker.broker.on_lost(call)

    def on_gone(self, machine: Machine) -> None:
        self.wire.forget(machine.address)
        self._open_calls = [c for c in self._open_calls if c.source != machine.address]
        for call in [c for c in self._open_calls if c.target == machine.address]:
            self.on_lost(call)

    def _ends(self, envelope: Envelope) -> str:
        return f"{self.name_of(envelope.source)} -> {self.name_of(envelope.target)}"

    # -- what follows without time passing

    def later(self, step: Callable[[], None]) -> None:
        self._agenda.append(step)

    def settle(self) -> None:
        for _ in range(STEP_LIMIT):
            if self._agenda:
                self._agenda.popleft()()
            elif self.wire.under_way:
                self.deliver(self.wire.under_way.popleft())
            else:
                return
        raise AssertionError("the nodes do not stop talking")

    # -- time

    def run_until(
        self, at_ms: int, is_over: Callable[[], bool] = lambda: False, *, timed: bool = False
    ) -> None:
        """Let every timer fire that is due by then, in order, or until it is over."""
        self.settle()
        self._flush()
        self._timed_from_ms = self.now_ms if timed else None
        for _ in range(STEP_LIMIT):
            if is_over() or not self._fire_next(at_ms):
                break
        else:
            raise AssertionError(f"too much happens before {at_ms} ms")
        self._flush()
        self._timed_from_ms = None

    def _fire_next(self, at_ms: int) -> bool:
        machine = min(
            self.machines.values(),
            key=lambda m: (m.next_deadline_ms, m.address != self.campaigner, m.address),
        )
        if machine.next_deadline_ms > at_ms:
            self.now_ms = max(self.now_ms, at_ms)
            return False
        self.now_ms = max(self.now_ms, machine.next_deadline_ms)
        machine.poke()
        self.settle()
        self._flush()
        return True

    # -- telling

    def line(self, text: str) -> None:
        self._flush()
        self.narrator.line(self._time() + text)

    def _flush(self) -> None:
        time = self._time()
        for told in self.narrator.take_notes():
            self.narrator.line(time + told)

    def _time(self) -> str:
        """How long after the command began; nothing while no time passes."""
        if self._timed_from_ms is None:
            return ""
        passed_ms = self.now_ms - self._timed_from_ms
        return f"+{passed_ms // 1000}.{passed_ms % 1000:03}s  "

    @contextmanager
    def silence(self) -> Iterator[None]:
        """What happens now is not part of the story."""
        self._flush()
        told, self.narrator = self.narrator, Narrator()
        yield
        self.narrator = told


def address_of(name: str) -> tuple[int, int]:
    """A machine's address and the node id it claims to be."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise ArgumentError(f"a node is a number, perhaps with a letter, not {name!r}")
    node_id = int(match[1])
    copy = ord(match[2]) - ord("a") + 1 if match[2] else 0
    assert node_id != CLIENT, "no number is negative"
    return node_id + 10_000 * copy, node_id
