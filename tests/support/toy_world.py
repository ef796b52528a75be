"""A cluster of nothing but nodes that greet each other: enough world for the machinery.

Its one rule: nobody may be cut off while somebody is down. Calm seeds keep it; a crash and
an isolation that overlap break it, so a failing plan needs two faults and no more.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import NamedTuple

import pytest

from tidelog.sim.entropy import stream
from tidelog.sim.faults import Fault
from tidelog.sim.happenings import NodeStarted, NodeStopped
from tidelog.sim.kernel import WORLD, Kernel
from tidelog.sim.network import Network
from tidelog.sim.plan import Plan
from tidelog.sim.trace import DOWN, UP, Trace
from tidelog.sim.world_port import Counters, JudgePort, Report, WorldPort

GREET_EVERY_US = 100_000
RULE = "nobody cut off while somebody is down"


class ToyWorld:
    tolerant = True
    """False: the rule counts. The mutant of the toy switches it."""

    def __init__(self, plan: Plan, kernel: Kernel, trace: Trace, report: Report) -> None:
        self.counters = Counters()
        self._plan = plan
        self._kernel = kernel
        self._trace = trace
        self._report = report
        self._network = Network(kernel, stream(plan.seed, "network"), plan.network, self._hear)
        self._down: list[int] = []
        self._cut: list[int] = []
        self.sweeps = 0
        self.finished = False

    def start(self) -> None:
        for node in range(1, self._plan.brokers + 1):
            self._kernel.call_in(GREET_EVERY_US, node, self._greet, node)

    def apply(self, fault: Fault) -> bool:
        if fault.kind == "crash":
            node = fault.nodes[0]
            self._down.append(node)
            self._kernel.revoke(node)
            self._network.close(node)
            self._trace.set_state(node, DOWN)
            self._trace.happened(node, NodeStopped(node, "crash", 0))
            self._kernel.call_in(fault.duration_ms * 1000, WORLD, self._restart, node)
        elif fault.kind == "isolate":
            node = fault.nodes[0]
            others = [peer for peer in range(1, self._plan.brokers + 1) if peer != node]
            handle = self._network.cut([node], others)
            self._cut.append(node)
            self._kernel.call_in(fault.duration_ms * 1000, WORLD, self._rejoin, (node, handle))
        else:
            return False
        if self._down and self._cut and not self.tolerant:
            self._report(RULE, f"{self._cut} cut off, {self._down} down")
        return True

    def heal(self, *, everything: bool) -> None:
        self._network.heal()
        self._cut.clear()

    def stop_producing(self) -> None:
        pass

    def unfinished(self) -> str | None:
        return f"{self._down} still down" if self._down else None

    def describe(self) -> list[str]:
        return [f"down {self._down}, cut off {self._cut}"]

    def sweep(self) -> None:
        self.sweeps += 1

    def finish(self) -> None:
        self.finished = True

    def _greet(self, node: int) -> None:
        peer = 1 + node % self._plan.brokers
        self._network.send(node, peer, "hello")
        self._kernel.call_in(GREET_EVERY_US, node, self._greet, node)

    def _hear(self, target: int, source: int, message: object) -> None:
        self.counters.acknowledged += 1
        self.counters.marks["heard"] += 1
        self._trace.fact(target << 8 | source)

    def _restart(self, node: int) -> None:
        self._down.remove(node)
        self._network.open(node)
        if node not in self._down:
            self._trace.set_state(node, UP)
            self._trace.happened(node, NodeStarted(node))
            self._kernel.call_in(GREET_EVERY_US, node, self._greet, node)

    def _rejoin(self, end: tuple[int, int]) -> None:
        node, handle = end
        self._network.restore(handle)
        if node in self._cut:
            self._cut.remove(node)


class StrictToyWorld(ToyWorld):
    tolerant = False


def assemble(
    plan: Plan, kernel: Kernel, trace: Trace, report: Report
) -> tuple[WorldPort, JudgePort]:
    world = ToyWorld(plan, kernel, trace, report)
    return world, world


def assemble_strict(
    plan: Plan, kernel: Kernel, trace: Trace, report: Report
) -> tuple[WorldPort, JudgePort]:
    world = StrictToyWorld(plan, kernel, trace, report)
    return world, world


class ToyMutant(NamedTuple):
    name: str
    title: str
    depth: str = "object"
    focus: tuple[str, ...] = ()


class ToyStory(NamedTuple):
    name: str
    title: str


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy in the places where the real world, mutants and lab are looked for."""
    world = ModuleType("tidelog.sim.world")
    world.assemble = assemble
    mutants = ModuleType("tidelog.sim.mutants")
    mutants.catalogue = lambda: [
        ToyMutant("intolerant", "two faults at once are forbidden"),
        ToyMutant("harmless", "nothing is broken at all"),
    ]
    mutants.apply = _apply
    lab = ModuleType("tidelog.lab")
    lab.stories = lambda: [
        ToyStory("reconcile", "Three logs become equal"),
        ToyStory("twisted", "A story that ends otherwise"),
    ]
    lab.run = _play
    monkeypatch.setitem(sys.modules, "tidelog.sim.world", world)
    monkeypatch.setitem(sys.modules, "tidelog.sim.mutants", mutants)
    monkeypatch.setitem(sys.modules, "tidelog.lab", lab)


@contextmanager
def _apply(name: str) -> Iterator[None]:
    ToyWorld.tolerant = name != "intolerant"
    try:
        yield
    finally:
        ToyWorld.tolerant = True


def _play(name, *, tell, ask=None):  # type: ignore[no-untyped-def]
    tell("101 dies, 103 leads")
    return ["three logs differ"] if name == "twisted" else []
