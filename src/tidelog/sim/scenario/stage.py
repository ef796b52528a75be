"""The stage of a story: brokers, a controller, a wire and a clock, all in one thread.

Nothing happens by itself. A command makes something happen, `settle` lets everything follow
that needs no time, and only `run_until` moves the clock. So a script always has one output.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidelog.core.metadata.image import PartitionState
from tidelog.core.replication.leader import LeaderReplica
from tidelog.core.replication.replica import Replica
from tidelog.core.types import NO_LEADER, PartitionId
from tidelog.sim.scenario.broker import StageBroker
from tidelog.sim.scenario.control import Control
from tidelog.sim.scenario.ledger import Ledger
from tidelog.sim.scenario.narrator import Narrator
from tidelog.sim.scenario.script import ArgumentError
from tidelog.sim.scenario.wire import Wire
from tidelog.sim.scenario.words import Cast, RecordNames

TOPIC = "orders"


class Stage:
    def __init__(self) -> None:
        self.narrator = Narrator()
        self.cast = Cast()
        self.names = RecordNames()
        self.initial: dict[str, str] = {}
        """Settings made before the scene is set."""
        self.clear()

    def clear(self) -> None:
        """A new scene: nothing of the one before is left but the settings."""
        self.wire = Wire()
        self.ledger = Ledger()
        self.brokers: dict[int, StageBroker] = {}
        self.now_ms = 0
        self._agenda: deque[Callable[[], None]] = deque()
        self._control: Control | None = None
        self.partition_id: PartitionId | None = None

    # -- the scene

    @property
    def is_set(self) -> bool:
        return self._control is not None

    @property
    def control(self) -> Control:
        if self._control is None:
            raise ArgumentError("there is nothing on the stage yet: begin with 'given'")
        return self._control

    def set_scene(self, *, elr_enabled: bool) -> None:
        self._control = Control(self, elr_enabled=elr_enabled)

    def broker(self, name: str) -> StageBroker:
        broker = self.brokers.get(self.cast.id_of(name))
        if broker is None:
            known = ", ".join(broker.name for broker in self.brokers.values())
            raise ArgumentError(f"there is no broker {name}: the story has {known or 'none yet'}")
        return broker

    @property
    def partition(self) -> PartitionState:
        """The partition the story is about, as the controller has committed it."""
        image, partition = self.control.controller.committed, self.partition_id
        state = None if partition is None else image.partition(partition)
        if state is None:
            raise ArgumentError("the topic is deleted")
        return state

    def leading_broker(self) -> StageBroker | None:
        """Whom a client with fresh metadata talks to."""
        leader = self.partition.leader
        return None if leader == NO_LEADER else self.brokers[leader]

    def replica_on(self, broker: StageBroker) -> Replica | None:
        return None if self.partition_id is None else broker.replicas.get(self.partition_id)

    def leader_role(
        self, source: StageBroker, leader: int, partition: PartitionId
    ) -> LeaderReplica | None:
        """The leading replica as `source` can reach it."""
        target = self.brokers.get(leader)
        if target is None or not source.reaches(target):
            return None
        replica = target.replicas.get(partition)
        role = replica.role if replica is not None else None
        return role if isinstance(role, LeaderReplica) else None

    # -- what follows without time passing

    def later(self, step: Callable[[], None]) -> None:
        self._agenda.append(step)

    def settle(self) -> None:
        while self._agenda:
            self._agenda.popleft()()

    @contextmanager
    def telling_roles(self, broker: StageBroker) -> Iterator[None]:
        """Whatever `broker` becomes until everything has settled is part of the story."""
        broker.tells_roles = True
        yield
        self.settle()
        broker.tells_roles = False

    def publish_metadata(self) -> None:
        """Every broker that hears the controller applies what is committed."""
        for broker in self.brokers.values():
            if broker.hears_controller:
                broker.catch_up_metadata()

    # -- time

    def run_until(self, at_ms: int, is_over: Callable[[], bool] = lambda: False) -> None:
        """Let every timer fire that is due by then, in order, or until it is over."""
        self.settle()
        while not is_over():
            due_ms = self._next_deadline_ms()
            if due_ms > at_ms:
                self.now_ms = max(self.now_ms, at_ms)
                return
            self.now_ms = max(self.now_ms, due_ms)
            for broker in self.brokers.values():
                if broker.next_deadline_ms <= self.now_ms:
                    broker.on_timer()
                    self.settle()
            if self.control.controller.next_deadline_ms <= self.now_ms:
                self.control.tick()
                self.settle()

    def _next_deadline_ms(self) -> int:
        deadlines = [broker.next_deadline_ms for broker in self.brokers.values()]
        return min(self.control.controller.next_deadline_ms, *deadlines)
