"""Runs that take milliseconds, for tests of what is around them: fleets, commands, reports.

Plans are real. Nodes never start: a run walks through the faults of its plan, and with the mutant
`intolerant` it breaks a rule as soon as one begins while another lasts.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import NamedTuple

import pytest

from tidelog.sim.kernel import WORLD
from tidelog.sim.nodes import run as runs
from tidelog.sim.nodes.fault_plan import NodeFault
from tidelog.sim.nodes.run import NodeRun
from tidelog.sim.results import SeedResult

RULE = "T1 one fault at a time"


class ToyRun(NodeRun):
    tolerant = True

    def _live(self) -> None:
        self._over_ms = 0
        self._begin("calm")
        for fault in self.plan.faults:
            self.kernel.call_at(fault.at_ms * 1000, WORLD, self._happen, fault)
        self._advance(self.plan.phases.duration_ms * 1000)
        self._begin("liveness: everything is healed")

    def _happen(self, fault: NodeFault) -> None:
        self._on_fault(str(fault))
        self.faults.counts[fault.kind] += 1
        if fault.at_ms < self._over_ms and not self.tolerant:
            self._report(RULE, f"{fault} begins before {self._over_ms} ms")
        self._over_ms = max(self._over_ms, fault.at_ms + fault.lasts_ms)


class StrictToyRun(ToyRun):
    tolerant = False


def toy(seed: int) -> SeedResult:
    return ToyRun(runs.draw_node_plan(seed)).execute()


def strict_toy(seed: int) -> SeedResult:
    return StrictToyRun(runs.draw_node_plan(seed)).execute()


class ToyMutant(NamedTuple):
    name: str
    title: str
    depth: str = "node"
    focus: tuple[str, ...] = ()


class ToyStory(NamedTuple):
    name: str
    title: str


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy in the places where real runs, mutants and the lab are looked for."""
    monkeypatch.setattr(runs, "NodeRun", ToyRun)
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
    monkeypatch.setitem(sys.modules, "tidelog.sim.mutants", mutants)
    monkeypatch.setitem(sys.modules, "tidelog.lab", lab)


@contextmanager
def _apply(name: str) -> Iterator[None]:
    ToyRun.tolerant = name != "intolerant"
    try:
        yield
    finally:
        ToyRun.tolerant = True


def _play(name, *, tell, ask=None):  # type: ignore[no-untyped-def]
    tell("101 dies, 103 leads")
    return ["three logs differ"] if name == "twisted" else []
