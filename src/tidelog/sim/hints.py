"""Closed connections, and the probes that find out what they mean (ADR 0017).

The network's half of fast failover: it tells the nodes when connections close, which they do
when a process ends and at times for no reason at all, and carries probes to listeners and
their outcome back. A machine answers for its processes: it refuses when nobody listens, and
accepts for a process that stands still unless too many wait at its door already. A machine
without power answers nothing, and neither does one behind a link that is cut.

The node's half is `Detector`: production code decides what a closed connection is worth.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.core import failover
from tidelog.core.failover import ProbeOutcome, Suspicion
from tidelog.sim.entropy import stream
from tidelog.sim.kernel import WORLD
from tidelog.sim.network import CHANCE_SIZE

if TYPE_CHECKING:
    from tidelog.sim.node import SimNode
    from tidelog.sim.world import World

POWER_LOSS: Final = "power loss"


class HintPlan(NamedTuple):
    """How fast and how well the nodes of one run hear of closed connections."""

    delay_us_max: int
    """Until a closed connection is noticed, and for either way of a probe."""
    unanswered: int
    """Probes that nobody answers, in parts of 2048."""
    late: int
    """Outcomes that are looked at late, in parts of 2048: the node was busy."""
    late_ms_max: int


def draw_hint_plan(entropy: random.Random, session_timeout_ms: int) -> HintPlan | None:
    """None in half of the runs: timeouts alone have to be enough, too."""
    if entropy.random() < 0.5:
        return None
    return HintPlan(
        delay_us_max=entropy.choice((200, 2_000, 20_000, 100_000)),
        unanswered=round(entropy.choice((0.0, 0.05, 0.5)) * CHANCE_SIZE),
        late=round(entropy.choice((0.0, 0.1, 0.5)) * CHANCE_SIZE),
        late_ms_max=2 * session_timeout_ms,
    )


class Hints:
    """What the network knows of connections and listeners, and tells those who ask."""

    __slots__ = ("_dark", "_entropy", "_plan", "_world")

    def __init__(self, world: World) -> None:
        self._world = world
        self._plan = world.plan.hints
        self._entropy = stream(world.plan.seed, "probes")
        # Machines without power.
        self._dark: dict[int, None] = {}

    @property
    def given(self) -> bool:
        """Are there hints in this run?"""
        return self._plan is not None

    # -- connections

    def started(self, node_id: int) -> None:
        if node_id in self._dark:
            # The machine is back and knows nothing of the connections it had.
            del self._dark[node_id]
            self._tell_others(node_id)

    def ended(self, node_id: int, kind: str) -> None:
        """A process is gone. Its machine closes the connections, unless it is gone as well."""
        if kind == POWER_LOSS:
            self._dark[node_id] = None
        else:
            self._tell_others(node_id)

    def reset(self, node_id: int) -> None:
        """Every connection of this node closes at both ends, and nobody has done anything."""
        self._tell_others(node_id)
        for other in self._world.nodes:
            self._tell(node_id, other)

    def _tell_others(self, node_id: int) -> None:
        for other in self._world.nodes:
            self._tell(other, node_id)

    def _tell(self, observer_id: int, closed_by: int) -> None:
        world = self._world
        observer = world.nodes[observer_id]
        if self._plan is None or observer_id == closed_by or not observer.running:
            return
        if world.network.reaches(closed_by, observer_id):
            observer.after_us(self._delay_us(), observer.detector.on_closed, closed_by)

    # -- probes

    def probe(self, detector: Detector, suspicion: Suspicion) -> None:
        if self._plan is not None:
            probe = (detector, suspicion)
            self._world.kernel.call_in(self._delay_us(), WORLD, self._arrives, probe)

    def _arrives(self, probe: tuple[Detector, Suspicion]) -> None:
        detector, suspicion = probe
        outcome = self._outcome(detector.node.id, suspicion.node_id)
        if outcome is ProbeOutcome.UNANSWERED:
            delay_us = self._world.plan.timings.request_timeout_ms * 1000
        else:
            delay_us = self._delay_us() + self._late_us()
        if detector.listens:
            detector.node.after_us(delay_us, detector.on_probed, (suspicion, outcome))

    def _outcome(self, observer: int, target: int) -> ProbeOutcome:
        assert self._plan is not None, f"a probe of {observer} in a run without hints"
        world = self._world
        network = world.network
        there_and_back = network.reaches(observer, target) and network.reaches(target, observer)
        lost = self._entropy.randrange(CHANCE_SIZE) < self._plan.unanswered
        if lost or not there_and_back or target in self._dark:
            return ProbeOutcome.UNANSWERED
        if not world.nodes[target].running:
            return ProbeOutcome.REFUSED
        crowded = world.kernel.is_paused(target) and self._entropy.random() < 0.5
        return ProbeOutcome.UNANSWERED if crowded else ProbeOutcome.ACCEPTED

    def _delay_us(self) -> int:
        assert self._plan is not None, "a delay of nothing"
        return 1 + self._entropy.randrange(self._plan.delay_us_max)

    def _late_us(self) -> int:
        assert self._plan is not None, "late for nothing"
        if self._entropy.randrange(CHANCE_SIZE) >= self._plan.late:
            return 0
        return 1000 * self._entropy.randrange(self._plan.late_ms_max)


class Detector:
    """A process's ear for closed connections; a new process has a new one."""

    __slots__ = ("node",)

    def __init__(self, node: SimNode) -> None:
        self.node = node

    @property
    def listens(self) -> bool:
        """Is the process that asked still there to hear the outcome?"""
        return self.node.running and self.node.detector is self

    def on_closed(self, node_id: int) -> None:
        controller = self.node.controller
        suspicion = failover.suspect(node_id, controller, self.node.quorum)
        if controller is not None and suspicion is not None:
            controller.on_disconnected(node_id, suspicion.broker_epoch)
        if suspicion is not None:
            self.node.world.hints.probe(self, suspicion)

    def look_at(self, brokers: list[int]) -> None:
        """A new controller has no connections that could close: it asks once for everybody."""
        for broker in brokers:
            if broker != self.node.id:
                self.on_closed(broker)

    def on_probed(self, answer: tuple[Suspicion, ProbeOutcome]) -> None:
        suspicion, outcome = answer
        if failover.confirms_death(outcome):
            self.node.confirmed_gone(suspicion)
        else:
            self.node.control_marks.hint_ignored(self.node.id, suspicion)
