"""The stage of the quorum: production's processes on one kernel, wires between them, and a clock.

Nothing happens by itself. A command makes something happen, `settle` delivers messages until
nobody has anything to say, and only `run_until` moves the clock. So a script always has one
output. At one moment timers of one process after the other fire, and between two of them everything
settles.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

from tidelog.config.node_config import NodeConfig
from tidelog.core.errors import Error
from tidelog.core.quorum.messages import (
    EndEpochRequest,
    FetchSnapshotRequest,
    VoteRequest,
    VoteResponse,
)
from tidelog.core.quorum.state import QuorumSettings
from tidelog.host.ports import Outcome
from tidelog.quorum.entry_codec import KafkaEntryCodec
from tidelog.quorum.translate import Speaker
from tidelog.sim.kernel import Kernel
from tidelog.sim.scenario.narrator import Narrator
from tidelog.sim.scenario.process import (
    CLUSTER_ID,
    broker_address,
    controller_address,
    node_config,
)
from tidelog.sim.scenario.quorum.history import History
from tidelog.sim.scenario.quorum.machine import Machine
from tidelog.sim.scenario.quorum.messages import (
    Envelope,
    answer_envelope,
    answer_error,
    request_envelope,
)
from tidelog.sim.scenario.quorum.telling import Telling
from tidelog.sim.scenario.quorum.wire import Route, SilentWires
from tidelog.sim.scenario.script import ArgumentError
from tidelog.sim.scenario.wires import CLIENT, TURNS_OF_A_FRAME, Address, Line, Question
from tidelog.wire.protocol import Message, RequestHeader, encode_request
from tidelog.wire.protocol.schemas.fetch_snapshot_request import (
    FetchSnapshotRequest as WireFetchSnapshot,
)

STEP_LIMIT = 20_000_000
TICK_MS = 5
"""Production's timers are rounded to so much."""
PART_US = 500
"""Of a millisecond: when commands are carried out, after all timers of that millisecond."""
TOGETHER_US = 5
"""What one process does within it is told in one line."""
_NAME = re.compile(r"([0-9]+)([a-z]?)")
FETCH_KEY = 1


class Addresses(dict[int, Address]):
    """Of the voters of the configuration; whoever the log makes a voter is found as well."""

    def get(self, node_id: int, default: Any = None) -> Any:
        return controller_address(node_id)


class QuorumStage:
    def __init__(self) -> None:
        self.narrator = Narrator()
        self.telling = Telling(self)
        self.machines: dict[int, Machine] = {}
        self.clear()

    def clear(self) -> None:
        """A new scene: nothing of the one before is left."""
        self.close()
        self.kernel = Kernel()
        self.kernel.run(PART_US, STEP_LIMIT)
        self.wires = SilentWires(self.kernel, self, self.lag_us)
        self.wires.on_turn = self.notice
        self.history = History()
        self.machines = {}
        self.gates: list[Route] = []
        self.held: list[Envelope] = []
        self.voter_addresses = Addresses()
        self.settings = QuorumSettings()
        self.chunk_records = 0
        self.has_controllers = False
        self.campaigner: int | None = None
        """While set, requests of all other candidates get lost."""
        self._timed_from_ms: int | None = None
        self._noted_us = 0
        self._said: dict[Question, tuple[int, str]] = {}
        """Who stands behind a request of the story, and what it is called."""
        self._refused: dict[int, Error] = {}
        self._resigned: dict[int, int] = {}
        self._later: list[Callable[[], None]] = []
        self._uuids = 0
        self.problems: list[str] = []
        """Callbacks that failed, and processes that could not start."""
        self._speaker = Speaker(CLUSTER_ID, {}, KafkaEntryCodec(), "CONTROLLER")

    def close(self) -> None:
        """Its processes end, without a word."""
        for machine in self.machines.values():
            machine.server.bury()

    @property
    def tells_entries(self) -> bool:
        """Where controllers run, what is committed is told by what they decided."""
        return not self.has_controllers

    # -- who is there

    def add_machine(self, name: str, *, is_broker: bool = False) -> Machine:
        """`101` is node 101; `101b` is another machine that says it is node 101."""
        address, node_id = address_of(name)
        if address in self.machines:
            raise ArgumentError(f"there is a machine {name} already")
        machine = self.machines[address] = Machine(self, address, node_id, name)
        machine.is_broker = is_broker
        return machine

    def config_for(self, machine: Machine, node_id: int) -> NodeConfig:
        voters = [f"{n}@{host}:{port}" for n, (host, port) in self.voter_addresses.items()]
        settings = {"controller.quorum.voters": ",".join(voters)}
        if node_id in self.voter_addresses:
            host, port = controller_address(machine.address)
            settings |= {"process.roles": "controller", "listeners": f"CONTROLLER://{host}:{port}"}
        else:
            host, port = broker_address(machine.address)
            settings |= {"process.roles": "broker", "listeners": f"PLAINTEXT://{host}:{port}"}
        return node_config(node_id, settings)

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

    def lag_us(self, owner: int) -> int:
        """How much later than others its timers fire, of those of one moment."""
        return 10 if owner == self.campaigner else 20 + 10 * list(self.machines).index(owner)

    # -- what processes tell

    def notice(self) -> None:
        for machine in self.machines.values():
            machine.notice()

    # -- messages, as `wires.Gate`

    def keeps_request(self, question: Question) -> bool:
        self.notice()
        said = self._said.get(question)
        envelope = request_envelope(question, self._speaker, "" if said is None else said[1])
        if said is not None:
            envelope = envelope._replace(source=said[0])
        if self.chunk_records and isinstance(envelope.message, FetchSnapshotRequest):
            envelope = self._in_pieces(envelope, envelope.message)
        self._tell_request(envelope)
        message = envelope.message
        if isinstance(message, VoteRequest) and self.campaigner not in (None, question.source):
            return True
        if question.header.api_key == FETCH_KEY and message is None:
            return True  # followers of topics fetch nothing here
        return self._keeps(envelope)

    def _in_pieces(self, envelope: Envelope, message: FetchSnapshotRequest) -> Envelope:
        """Ask for as many bytes as so many records take, and count in records."""
        log, snapshot = self.machines[envelope.target].log, message.snapshot
        found = log.snapshot_chunk(snapshot, 0, 1)
        if found is None:
            return envelope
        pieces = -(-len(log.read_snapshot(snapshot)) // self.chunk_records)
        piece_bytes = -(-found[0] // pieces)
        request = cast(WireFetchSnapshot, envelope.question.request())
        request.max_bytes = piece_bytes
        envelope.question.ask_instead(request)
        position = message.position // piece_bytes * self.chunk_records
        return envelope._replace(text=f"{envelope.kind} {tuple(snapshot)} position={position}")

    def keeps_answer(self, question: Question) -> bool:
        self.notice()
        said = self._said.get(question)
        envelope = answer_envelope(question, self._speaker, "" if said is None else said[1])
        if said is not None:
            envelope = envelope._replace(target=said[0])
        self._tell_answer(envelope)
        return self._keeps(envelope)

    def outlives_cut(self, line: Line) -> bool:
        return True

    def _keeps(self, envelope: Envelope) -> bool:
        if any(gate.covers(envelope) for gate in self.gates):
            self.held.append(envelope)
            self.line(f"{self._ends(envelope)} {envelope.text} | held")
            return True
        return not self.connects(envelope)

    def connects(self, envelope: Envelope) -> bool:
        if CLIENT in (envelope.source, envelope.target):
            return True
        return self.wires.connects(envelope.source, envelope.target)

    def deliver_held(self, envelope: Envelope, *, keep: bool) -> None:
        if not keep:
            self.held.remove(envelope)
        self.line(f"{self._ends(envelope)} {envelope.text}")
        self.release(envelope)

    def release(self, envelope: Envelope) -> None:
        if not self.connects(envelope):
            return
        if envelope.is_answer:
            self.wires.deliver_answer(envelope.question)
        else:
            self.wires.deliver_request(envelope.question)

    def ask(self, target: Machine, request: Message, version: int, who: int, text: str) -> Question:
        """A request of a client, or in the name of a broker."""
        header = RequestHeader(request.__api_key__, version, 1, "story")
        frame = b"".join(map(bytes, encode_request(header, request)))
        line = self.wires.open_line(None, controller_address(target.address))
        question = Question(line, frame, None)
        self._said[question] = who, text
        question.on_settled = lambda outcome: self._on_answer(question, outcome)
        self.wires.carry_request(question)
        return question

    def _on_answer(self, question: Question, outcome: Outcome) -> None:
        who, text = self._said.pop(question)
        error = answer_error(question)
        told = f"{text} | {'done' if error is Error.NONE else error.name}"
        if who == CLIENT:
            self.line(f"client: {told}")
        else:
            self.machines[who].note(told)

    def on_gone(self, machine: Machine) -> None:
        """Clients that it has not answered notice that."""
        held = [envelope.question for envelope in self.held]
        for question, (who, text) in list(self._said.items()):
            if question.target == machine.address and question not in held:
                del self._said[question]
                if who == CLIENT:
                    self.line(f"client: {text} | no answer")

    def _tell_request(self, envelope: Envelope) -> None:
        message, machine = envelope.message, self.machines.get(envelope.source)
        if machine is None:
            return
        machine.tell_start(None)
        if not isinstance(message, EndEpochRequest):
            return
        if self._resigned.get(machine.address) != message.epoch:
            self._resigned[machine.address] = message.epoch
            candidates = ", ".join(map(str, message.preferred_candidates))
            machine.note(f"proposes {candidates} in this order")

    def _tell_answer(self, envelope: Envelope) -> None:
        message, machine = envelope.message, self.machines[envelope.source]
        if isinstance(message, VoteResponse):
            verb = "grants" if message.granted else "refuses"
            what = envelope.kind.removesuffix("-answer")
            target = self.name_of(envelope.target)
            machine.tell_start(None)
            machine.note(f"{verb} {target} its {what} in epoch={message.epoch}")
            if message.granted and not message.pre_vote:
                self.history.on_vote_sent(machine.address, message.epoch, envelope.target)
        elif envelope.kind in ("registration-answer", "heartbeat-answer"):
            self.wires.after_turns(TURNS_OF_A_FRAME, partial(self._tell_refusal, envelope))

    def _tell_refusal(self, envelope: Envelope) -> None:
        """A refusal is repeated many times and told once; not if a broker asks at random."""
        asker = self.machines[envelope.target]
        error = answer_error(envelope.question)
        blind = asker.member is None or asker.member.leader_id != envelope.source
        if error is Error.NOT_CONTROLLER and blind:
            return
        if error not in (Error.NONE, self._refused.get(asker.address)):
            kind = envelope.kind.removesuffix("-answer")
            asker.note(f"{kind} refused {error.name}")
        self._refused[asker.address] = error

    def _ends(self, envelope: Envelope) -> str:
        return f"{self.name_of(envelope.source)} -> {self.name_of(envelope.target)}"

    # -- what follows without time passing

    def later(self, step: Callable[[], None]) -> None:
        self._later.append(step)

    def settle(self) -> None:
        self._run_to(self.kernel.now_us)

    def _run_to(self, at_us: int) -> None:
        self.kernel.run(at_us, STEP_LIMIT)
        assert not self.problems, self.problems
        assert self.kernel.steps < STEP_LIMIT, "the nodes do not stop talking"
        self.notice()
        later, self._later = self._later, []
        for step in later:
            step()

    def fire_due(self) -> None:
        """Timers of this very moment fire, too."""
        self._run_to(self.kernel.now_us + PART_US // 2)

    # -- time

    @property
    def now_ms(self) -> int:
        return self.kernel.now_ms

    def run_until(
        self, at_ms: int, is_over: Callable[[], bool] = lambda: False, *, timed: bool = False
    ) -> None:
        """Let every timer fire that is due by then, in order, or until it is over."""
        self.settle()
        self._flush()
        self._timed_from_ms = self.now_ms if timed else None
        while not is_over() and self.now_ms < at_ms:
            tick_ms = (self.now_ms // TICK_MS + 1) * TICK_MS
            self._run_to(min(tick_ms, at_ms) * 1000 + PART_US)
        self._flush()
        self._timed_from_ms = None

    # -- telling

    def note(self, machine: Machine, text: str) -> None:
        if self.kernel.now_us - self._noted_us > TOGETHER_US:
            self._flush()
        self._noted_us = self.kernel.now_us
        self.narrator.note(machine.name, text)

    def line(self, text: str) -> None:
        self._flush()
        self.narrator.line(self._time(self.now_ms) + text)

    def _flush(self) -> None:
        time = self._time(self._noted_us // 1000)
        for told in self.narrator.take_notes():
            self.narrator.line(time + told)

    def _time(self, at_ms: int) -> str:
        """How long after the command began; nothing while no time passes."""
        if self._timed_from_ms is None:
            return ""
        passed_ms = at_ms - self._timed_from_ms
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
    return node_id + 10_000 * copy, node_id
