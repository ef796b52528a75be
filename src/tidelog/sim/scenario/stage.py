"""The stage of a story: production nodes on one kernel, wires between them, and a clock.

Nothing happens by itself. A command makes something happen, `settle` lets everything follow
that needs no time, and only `run_until` moves the clock. So a script always has one output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidelog.core.events import Event
from tidelog.core.metadata.image import PartitionState
from tidelog.core.types import NO_LEADER, PartitionId
from tidelog.host.ports import Outcome
from tidelog.sim.kernel import Kernel
from tidelog.sim.scenario.broker import StageBroker
from tidelog.sim.scenario.control import Control
from tidelog.sim.scenario.gate import StoryGate
from tidelog.sim.scenario.ledger import Ledger
from tidelog.sim.scenario.narrator import Narrator
from tidelog.sim.scenario.passed import PassedMessages
from tidelog.sim.scenario.process import StoryServer, broker_address
from tidelog.sim.scenario.produce import Producing
from tidelog.sim.scenario.script import ArgumentError
from tidelog.sim.scenario.wires import Address, Wires
from tidelog.sim.scenario.words import Cast
from tidelog.wire.protocol import Message, RequestHeader, decode_response, encode_request

STEP_LIMIT = 50_000_000
TICK_US = 5_000
"""Production's timers are rounded to so much."""


class Stage:
    def __init__(self) -> None:
        self.narrator = Narrator()
        self.cast = Cast()
        self.initial: dict[str, str] = {}
        """Settings made before the scene is set."""
        self._servers: list[StoryServer] = []
        self.clear()

    def clear(self) -> None:
        """A new scene: nothing of the one before is left but the settings."""
        self.close()
        self.kernel = Kernel()
        self.gate = StoryGate(self)
        self.wires = Wires(self.kernel, self.gate)
        self.ledger = Ledger()
        self.passed = PassedMessages()
        self.producing = Producing(self)
        self.brokers: dict[int, StageBroker] = {}
        self._control: Control | None = None
        self._failures: list[str] = []
        self.partition_id: PartitionId | None = None

    def close(self) -> None:
        """Its processes end, without a word."""
        servers, self._servers = self._servers, []
        for server in servers:
            server.bury()

    # -- the scene

    @property
    def is_set(self) -> bool:
        return self._control is not None

    @property
    def control(self) -> Control:
        if self._control is None:
            raise ArgumentError("there is nothing on the stage yet: begin with 'given'")
        return self._control

    def add_controller(self, server: StoryServer) -> None:
        self._control = Control(self, server)
        self._add(server)

    def add_broker(self, server: StoryServer) -> None:
        self.brokers[server.node_id] = StageBroker(self, server)
        self._add(server)

    def _add(self, server: StoryServer) -> None:
        server.report_to(self._on_event, self._on_problem)
        self._servers.append(server)

    def broker(self, name: str) -> StageBroker:
        broker = self.brokers.get(self.cast.id_of(name))
        if broker is None:
            known = ", ".join(broker.name for broker in self.brokers.values())
            raise ArgumentError(f"there is no broker {name}: the story has {known or 'none yet'}")
        return broker

    @property
    def partition(self) -> PartitionState:
        """The partition the story is about, as the controller has committed it."""
        image, partition = self.control.committed, self.partition_id
        state = None if partition is None else image.partition(partition)
        if state is None:
            raise ArgumentError("the topic is deleted")
        return state

    def leading_broker(self) -> StageBroker | None:
        """Whom a client with fresh metadata talks to."""
        leader = self.partition.leader
        return None if leader == NO_LEADER else self.brokers[leader]

    # -- what nodes tell

    def _on_event(self, node_id: int, event: Event) -> None:
        if node_id in self.brokers:
            self.brokers[node_id].on_event(event)

    def _on_problem(self, node_id: int, text: str) -> None:
        self._failures.append(f"{self.cast.name_of(node_id)}: {text}")

    # -- what clients ask

    def ask(self, broker: StageBroker, request: Message, version: int) -> Message:
        return self.ask_at(broker_address(broker.id), request, version)

    def ask_at(self, address: Address, request: Message, version: int) -> Message:
        """A request that is answered without time passing."""
        answers: list[bytes] = []

        def on_outcome(outcome: Outcome) -> None:
            assert isinstance(outcome, memoryview), outcome
            answers.append(bytes(outcome))

        header = RequestHeader(request.__api_key__, version, 1, "client")
        frame = b"".join(map(bytes, encode_request(header, request)))
        self.wires.ask(address, frame, on_outcome)
        self.settle()
        assert answers, f"{request} was not answered"
        return decode_response(answers[0], request.__api_key__, version)[1]

    # -- what follows without time passing

    @property
    def now_ms(self) -> int:
        return self.kernel.now_ms

    def settle(self) -> None:
        self._run_to(self.kernel.now_us)

    def _run_to(self, at_us: int) -> None:
        self.kernel.run(at_us, STEP_LIMIT)
        assert not self._failures, self._failures
        assert self.kernel.steps < STEP_LIMIT, "the story does not come to rest"

    @contextmanager
    def telling_roles(self, broker: StageBroker) -> Iterator[None]:
        """Whatever `broker` becomes until everything has settled is part of the story."""
        broker.tells_roles = True
        yield
        self.settle()
        broker.tells_roles = False

    # -- time

    def advance(self, duration_ms: int) -> None:
        self._run_to(self.kernel.now_us + duration_ms * 1000)

    def run_until(self, is_over: Callable[[], bool], limit_ms: int) -> bool:
        """Let time pass until it is over, or for so long; whether it is."""
        end_us = self.kernel.now_us + limit_ms * 1000
        self.settle()
        while not is_over() and self.kernel.now_us < end_us:
            self._run_to(self.kernel.now_us + TICK_US)
        return is_over()
