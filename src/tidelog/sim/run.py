"""One run: a plan, a world, a judge, and the phases of a life.

Calm, then chaos with the faults of the plan, then liveness: a sufficient core is healed and
must make progress in bounded virtual time while the rest stays broken; then everything is
healed and all replicas must become equal. The first broken rule ends the run.

A seed is the border where anything goes wrong inside is caught: a failed assertion of the
code under test is a finding like a broken rule, and so is any other exception.
"""

import importlib
from typing import Any, Final, cast

from tidelog.sim import mutation
from tidelog.sim.faults import Fault
from tidelog.sim.happenings import FaultDeclined, FaultInjected, PhaseBegan, RuleBroken
from tidelog.sim.kernel import WORLD, Kernel
from tidelog.sim.plan import NODE_DEPTH, Plan, draw_plan
from tidelog.sim.results import Caught, SeedResult, Violation, quiet_collector
from tidelog.sim.trace import NOWHERE, RING_SIZE, Trace
from tidelog.sim.world_port import Assemble, JudgePort, WorldPort

SWEEP_EVERY_STEPS: Final = 500
STEP_LIMIT: Final = 3_000_000
"""Far above what any plan needs: a run that gets here goes round in circles."""
SETTLE_MS: Final = 1_000
"""Clients go on for so long after the core was healed: writes must resume by themselves."""
LOOK_EVERY_MS: Final = 100
FOREVER_MS: Final = 1 << 40
STOPPED_EARLY: Final = "stopped early"

LIVENESS_CORE: Final = "liveness of a healed core"
LIVENESS_ALL: Final = "liveness when all is healed"
STEPS: Final = "step limit"


def run_plan(
    plan: Plan,
    *,
    mutant: str | None = None,
    assemble: Assemble | None = None,
    until_ms: int = FOREVER_MS,
) -> SeedResult:
    """Run a plan to its end or to its first violation; not beyond `until_ms` of its time."""
    with quiet_collector():
        return Run(plan, assemble=assemble, until_ms=until_ms).execute(mutant=mutant)


def run_seed(
    seed: int, *, depth: str = "object", mutant: str | None = None, assemble: Assemble | None = None
) -> SeedResult:
    """One seed at any depth. Whole nodes have plans of their own."""
    if depth == NODE_DEPTH:
        focus = mutation.focus(mutant)
        ran: SeedResult = whole_nodes().run_node_seed(seed, focus=focus, mutant=mutant)
        return ran
    return run_plan(plan_for(seed, depth=depth, mutant=mutant), mutant=mutant, assemble=assemble)


def plan_for(seed: int, *, depth: str = "object", mutant: str | None = None) -> Plan:
    """The plan of this seed, with the faults that suit the mutant."""
    return draw_plan(seed, depth=depth, focus=mutation.focus(mutant))


class Run:
    """One run with everything that can be looked at afterwards: trace, world, violations."""

    __slots__ = (
        "_assemble",
        "_traceback",
        "_until_us",
        "kernel",
        "plan",
        "trace",
        "violations",
        "world",
    )

    def __init__(
        self,
        plan: Plan,
        *,
        assemble: Assemble | None = None,
        whole_story: bool = False,
        until_ms: int = FOREVER_MS,
    ) -> None:
        """`whole_story` keeps every happening instead of the last few thousand. A run that is
        stopped at `until_ms` proves nothing: it is for looking at a beginning again."""
        self.plan = plan
        self._until_us = until_ms * 1000
        self.kernel = Kernel()
        self.trace = Trace(
            self.kernel,
            plan.brokers,
            ring_size=None if whole_story else RING_SIZE,
            topics=tuple(topic.name for topic in plan.every_topic),
        )
        self.violations: list[Violation] = []
        self.world: WorldPort | None = None
        self._assemble = assemble
        self._traceback = ""

    def execute(self, *, mutant: str | None = None) -> SeedResult:
        assert self.world is None, f"the run of seed {self.plan.seed} was executed before"
        assemble = self._assemble or the_real_world()
        with mutation.applied(mutant):
            try:
                self._live(assemble)
            except Exception as reason:
                self._caught(reason)
        return self._result()

    def _live(self, assemble: Assemble) -> None:
        self.world, judge = assemble(self.plan, self.kernel, self.trace, self._report)
        self.kernel.every_steps(SWEEP_EVERY_STEPS, judge.sweep)
        self._begin("calm")
        for fault in self.plan.faults:
            self.kernel.call_at(fault.at_ms * 1000, WORLD, self._inject, fault)
        self.world.start()
        self._advance(self.plan.phases.calm_ms)
        self._begin("chaos")
        self._advance(self.plan.phases.chaos_ms)
        if self._over(judge):
            return
        self._prove_liveness(self.world, judge)

    def _prove_liveness(self, world: WorldPort, judge: JudgePort) -> None:
        self._begin("liveness: a sufficient core is healed")
        world.heal(everything=False)
        self._advance(SETTLE_MS)
        world.stop_producing()
        if self._await(world, LIVENESS_CORE, self.plan.phases.core_limit_ms) or self._over(judge):
            return
        self._begin("liveness: everything is healed")
        world.heal(everything=True)
        if self._await(world, LIVENESS_ALL, self.plan.phases.drain_limit_ms) or self._over(judge):
            return
        judge.finish()

    def _begin(self, phase: str) -> None:
        self.trace.happened(NOWHERE, PhaseBegan(phase))

    def _advance(self, duration_ms: int) -> None:
        kernel = self.kernel
        if kernel.stop_reason is not None:
            return
        kernel.run(min(kernel.now_us + duration_ms * 1000, self._until_us), STEP_LIMIT)
        if kernel.now_us >= self._until_us:
            kernel.stop(STOPPED_EARLY)
        if kernel.steps >= STEP_LIMIT:
            self._report(STEPS, f"{kernel.steps} steps by {kernel.now_ms} ms of simulated time")

    def _await(self, world: WorldPort, rule: str, limit_ms: int) -> bool:
        """Let time pass until nothing is unfinished; True if the run is over instead."""
        begin_ms = self.kernel.now_ms
        missing = world.unfinished()
        while missing is not None and self.kernel.stop_reason is None:
            if self.kernel.now_ms - begin_ms >= limit_ms:
                self._report(rule, f"after {limit_ms} ms: {missing}")
                break
            self._advance(LOOK_EVERY_MS)
            missing = world.unfinished()
        return self.kernel.stop_reason is not None

    def _over(self, judge: JudgePort) -> bool:
        """A phase has ended: look at the whole cluster unless the run has already failed."""
        if self.kernel.stop_reason is None:
            judge.sweep()
        return self.kernel.stop_reason is not None

    def _inject(self, fault: Fault) -> None:
        assert self.world is not None, f"fault {fault} before the world"
        counters = self.world.counters
        # Told before it happens, so that the story reads in order of cause and effect.
        self.trace.happened(NOWHERE, FaultInjected(fault))
        if self.world.apply(fault):
            counters.faults[fault.kind] += 1
        else:
            counters.declined[fault.kind] += 1
            self.trace.happened(NOWHERE, FaultDeclined(fault))

    def _report(self, rule: str, text: str) -> None:
        self.violations.append(Violation(rule, self.kernel.now_ms, text))
        self.trace.happened(NOWHERE, RuleBroken(rule, text))
        self.kernel.stop(rule)

    def _caught(self, reason: Exception) -> None:
        caught = Caught.of(reason)
        self._traceback = caught.traceback
        self._report(caught.rule, caught.text)

    def _result(self) -> SeedResult:
        counters = self.world.counters if self.world is not None else None
        return SeedResult(
            seed=self.plan.seed,
            steps=self.kernel.steps,
            simulated_ms=self.kernel.now_ms,
            acknowledged=counters.acknowledged if counters else 0,
            refused=counters.refused if counters else 0,
            timed_out=counters.timed_out if counters else 0,
            lost=counters.lost if counters else 0,
            forfeited=counters.forfeited if counters else 0,
            violations=tuple(self.violations),
            marks=dict(sorted(counters.marks.items())) if counters else {},
            faults=dict(sorted(counters.faults.items())) if counters else {},
            declined=dict(sorted(counters.declined.items())) if counters else {},
            digest=self.trace.hexdigest(),
            traceback=self._traceback,
        )


def the_real_world() -> Assemble:
    """Nodes around the real state machines, judged by the real rules."""
    module: Any = importlib.import_module("tidelog.sim.world")
    return cast(Assemble, module.assemble)


def whole_nodes() -> Any:
    """`tidelog.sim.nodes.run`, imported by those who want it: production comes with it."""
    return importlib.import_module("tidelog.sim.nodes.run")
