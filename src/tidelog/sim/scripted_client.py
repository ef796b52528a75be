"""A client whose life is a script: it asks, waits for the answer, and goes on.

A script is a generator that yields what it waits for. So a life of many steps reads from top to
bottom, though the kernel runs it in pieces.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from tidelog.core.errors import Error
from tidelog.core.types import NO_LEADER, PartitionId
from tidelog.sim import messages as m
from tidelog.sim.clients import RETRY_MS, Leadership
from tidelog.sim.entropy import stream

if TYPE_CHECKING:
    from tidelog.sim.world import World


class Sleep(NamedTuple):
    delay_ms: int


class Ask(NamedTuple):
    """Send it and wait for the reply that repeats its number; None comes when none did."""

    target: int
    message: Any
    timeout_ms: int


Result = TypeVar("Result")
Steps = Generator[Sleep | Ask, Any, Result]


class ScriptedClient:
    """Owner of one script. `done` when it has come to its end."""

    __slots__ = (
        "_awaited",
        "_leaders",
        "_script",
        "_ticket",
        "address",
        "done",
        "entropy",
        "stopping",
        "world",
    )

    def __init__(self, world: World) -> None:
        self.world = world
        self.address = world.new_address()
        self.entropy = stream(world.plan.seed, f"client {self.address}")
        self.done = False
        self.stopping = False
        """Come to an end: finish what is under way, begin nothing new."""
        self._script: Steps[None] | None = None
        self._ticket = 0
        self._awaited = 0
        self._leaders: dict[PartitionId, Leadership] = {}

    def life(self) -> Steps[None]:
        raise NotImplementedError(f"{type(self).__name__} without a life")

    def waiting_for(self) -> str | None:
        """What is still to come before a healed cluster may be called whole."""
        return None if self.done else f"{type(self).__name__} {self.address} is not done"

    # -- the kernel's side

    def start(self) -> None:
        self._script = self.life()
        self._advance(None)

    def crash(self) -> None:
        """Silently: whoever waits for it has to find out."""
        assert self._script is not None, f"client {self.address} has not begun"
        self.done = True
        self._awaited = 0
        self._ticket += 1

    def receive(self, _source: int, message: Any) -> None:
        if self._awaited and message.request_id == self._awaited:
            self._advance(message)

    def _advance(self, value: object) -> None:
        assert self._script is not None, f"client {self.address} has not begun"
        self._awaited = 0
        self._ticket += 1
        try:
            step = self._script.send(value)
        except StopIteration:
            self.done = True
            return
        kernel = self.world.kernel
        if type(step) is Sleep:
            kernel.call_in(step.delay_ms * 1000, self.address, self._wake, self._ticket)
            return
        assert type(step) is Ask, step
        self._awaited = step.message.request_id
        self.world.network.send(self.address, step.target, step.message)
        kernel.call_in(step.timeout_ms * 1000, self.address, self._wake, self._ticket)

    def _wake(self, ticket: int) -> None:
        if ticket == self._ticket and not self.done:
            self._advance(None)

    # -- parts of every script

    @property
    def now_ms(self) -> int:
        return self.world.kernel.now_ms

    @property
    def timeout_ms(self) -> int:
        return self.world.plan.timings.request_timeout_ms

    def chance(self, percent: int) -> bool:
        return self.entropy.randrange(100) < percent

    def leader_of(self, partition: PartitionId) -> Steps[int]:
        """Ask around until somebody knows one."""
        while True:
            known = self._leaders.setdefault(partition, Leadership())
            if known.leader != NO_LEADER:
                return known.leader
            ask = m.WhoLeads(self.world.new_request_id(), partition)
            reply = yield Ask(self.world.draw_broker(), ask, self.timeout_ms)
            if reply is not None:
                known.learn(reply)
            if known.leader == NO_LEADER:
                yield Sleep(RETRY_MS)

    def known_leader(self, partition: PartitionId) -> int:
        """NO_LEADER if it knows none."""
        known = self._leaders.get(partition)
        return NO_LEADER if known is None else known.leader

    def forget_leader(self, partition: PartitionId) -> None:
        """It may be another one by now."""
        self._leaders[partition].leader = NO_LEADER

    def call(
        self,
        partition: PartitionId,
        request: object,
        *,
        until_ms: int,
        careful: bool = False,
        wait_ms: int = 0,
    ) -> Steps[Any]:
        """Ask the coordinator on this partition until it answers; None when time is up. Careful
        about what must come neither late nor twice. An answer may take `wait_ms` longer."""
        while True:
            leader = yield from self.leader_of(partition)
            connection = m.Connection() if careful else None
            committed_end = self.world.committed_end(partition)
            call = m.CoordinatorCall(
                self.world.new_request_id(), partition, request, connection, committed_end
            )
            reply = yield Ask(leader, call, self.timeout_ms + wait_ms)
            if reply is not None and reply.error == Error.NONE:
                return reply.response
            if connection is not None:
                connection.close()
            self.forget_leader(partition)
            if self.now_ms >= until_ms:
                return None
            yield Sleep(RETRY_MS)
