"""One whole-node run: a plan, a cluster with its clients, and the phases of a life.

Calm, then chaos with the faults of the plan. Then liveness, in two steps: a sufficient core is
healed and has to make progress in bounded virtual time while the rest stays broken; then
everything is healed and has to come to rest. In the end clients read everything back. The first
broken rule ends the run; an exception counts as one.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple

from tidelog.core.events import Event
from tidelog.core.types import PartitionId
from tidelog.sim import mutation
from tidelog.sim.kernel import Kernel
from tidelog.sim.nodes import rules
from tidelog.sim.nodes.clients.client_rules import judge_history
from tidelog.sim.nodes.clients.stage import GAMBLES
from tidelog.sim.nodes.cluster import NodeCluster
from tidelog.sim.nodes.fault_kinds import NodeFault
from tidelog.sim.nodes.faults import NodeFaults
from tidelog.sim.nodes.healed_core import NO_PROGRESS, CoreProgress, sufficient_core
from tidelog.sim.nodes.judging import Judging
from tidelog.sim.nodes.owed_answers import FORGOTTEN, OwedAnswers
from tidelog.sim.nodes.plan import NodePlan, draw_node_plan
from tidelog.sim.nodes.roles import Roles
from tidelog.sim.nodes.state_table import describe
from tidelog.sim.nodes.story import Story
from tidelog.sim.nodes.workload import Workload
from tidelog.sim.results import Caught, SeedResult, Violation, quiet_collector

STEP_LIMIT: Final = 5_000_000
LOOK_EVERY_US: Final = 100_000
START_LIMIT_US: Final = 30_000_000
SETTLE_US: Final = 2_000_000
"""Writers go on for so long after everything was healed."""
CORE_LIMIT_US: Final = 60_000_000
HEAL_LIMIT_US: Final = 60_000_000
READ_LIMIT_US: Final = 120_000_000

STEPS: Final = "step limit"
STOPPED_EARLY: Final = "stopped early"

Missing = Callable[[], str | None]
"""What a phase still waits for, in words; None if nothing is missing."""


def run_node_seed(seed: int, *, focus: Sequence[str] = (), mutant: str | None = None) -> SeedResult:
    return run_node_plan(draw_node_plan(seed, focus), mutant=mutant)


def run_node_plan(
    plan: NodePlan, *, mutant: str | None = None, until_ms: int | None = None
) -> SeedResult:
    """To its end or to its first violation; not beyond `until_ms` of its time."""
    with quiet_collector(), _no_journal(), mutation.applied(mutant):
        return NodeRun(plan, until_ms=until_ms).execute()


def tell_node_seed(seed: int, *, focus: Sequence[str] = (), mutant: str | None = None) -> "Told":
    return tell_node_plan(draw_node_plan(seed, focus), mutant=mutant)


def tell_node_plan(plan: NodePlan, *, mutant: str | None = None) -> "Told":
    """The same with its story."""
    with quiet_collector(), _no_journal(), mutation.applied(mutant):
        run = NodeRun(plan)
        run.story = story = Story(run.cluster)
        return Told(plan, run.execute(), story, tuple(run.state))


class Told(NamedTuple):
    """A run and its story."""

    plan: NodePlan
    result: SeedResult
    story: Story
    state: tuple[str, ...]
    """The cluster when a rule was broken, as a table."""

    def lines(self, *, everything: bool) -> Iterator[str]:
        yield self.plan.headline()
        yield from self.story.lines(everything=everything)
        yield from self.state


class NodeRun:
    """A run with everything that can be looked at afterwards."""

    def __init__(self, plan: NodePlan, *, until_ms: int | None = None, judged: bool = True) -> None:
        """A run that is stopped at `until_ms` proves nothing: it is for looking at a beginning
        again. Nor does one that only clients judge: it shows that probes change nothing."""
        self.plan = plan
        self.kernel = Kernel(plan.seed)
        self.violations: list[Violation] = []
        self.state: list[str] = []
        self.story: Story | None = None
        """What happened, if somebody wants to read it."""
        self.cluster = NodeCluster(self.kernel, plan.seed, plan.cluster)
        self.workload = Workload(self.cluster, plan, self._on_client_error)
        self.faults = NodeFaults(self.cluster, self.workload.elect, self._on_fault)
        self.judging = Judging(self.cluster, self._report)
        self._event_rules = rules.EventRules(self._report, self._may_lose)
        self._attending = self.judging.attending if judged else self.judging.listening
        self._until_us = None if until_ms is None else until_ms * 1000
        self._lost = 0
        self._forfeited = 0
        self._owed: OwedAnswers | None = None
        """From when everything is healed."""
        self._traceback = ""

    def execute(self) -> SeedResult:
        try:
            with self._attending():
                self._live()
        except Exception as reason:
            caught = Caught.of(reason)
            self._traceback = caught.traceback
            self._report(caught.rule, caught.text)
        finally:
            if self.violations and self.story is not None:
                self.state = describe(self.cluster)
            self.story = None  # the end of the run is no part of it
            self.cluster.bury()
        return self._result()

    # -- phases

    def _live(self) -> None:
        if self._start() and self._break_things():
            self._heal()

    def _start(self) -> bool:
        for server in self.cluster.servers.values():
            server.report_to(self._on_event, self._on_problem, self._on_life)
            server.work.on_too_long = partial(self._on_held, server.node_id)
            server.start()
        return self._until(self._not_whole, START_LIMIT_US) and self._finish(
            self.workload.create_topics(), START_LIMIT_US
        )

    def _break_things(self) -> bool:
        self._begin("calm")
        self.workload.begin()
        self.faults.schedule(self._from_now(self.plan.faults))
        self._advance(self.plan.phases.calm_ms * 1000)
        self._begin("chaos")
        return self._advance(self.plan.phases.chaos_ms * 1000)

    def _heal(self) -> None:
        if self._go_on_with_a_core() and self._come_to_rest():
            self._judge()

    def _go_on_with_a_core(self) -> bool:
        """Nothing to see where every node is needed."""
        image = self.judging.view.image
        core = sufficient_core(image, self.plan.cluster)
        if len(core) == self.plan.cluster.nodes:
            return True
        named = ", ".join(map(str, core))
        self._begin(f"liveness: nodes {named} are healed, the others are down")
        self.faults.heal(core)
        progress = CoreProgress(self.cluster, core, image)
        return self._until(progress.missing, CORE_LIMIT_US, NO_PROGRESS)

    def _come_to_rest(self) -> bool:
        self._begin("liveness: everything is healed")
        self.faults.heal(tuple(self.cluster.servers))
        self._advance(SETTLE_US)
        self.workload.stop()
        self._owed = OwedAnswers()
        return self._until(self._not_whole, HEAL_LIMIT_US)

    def _judge(self) -> None:
        self._begin("clients read everything back")
        if self._finish(self.workload.read_back(), READ_LIMIT_US):
            history = self.workload.history
            self._forfeited = history.forfeit(
                [(GAMBLES, each.partition) for each in self._event_rules.given_up]
            )
            self._lost = judge_history(history, self._report)
            self.judging.finish()

    def _may_lose(self, partition: PartitionId) -> bool:
        image = Roles(self.cluster.servers).image()
        topic = None if image is None else image.topics.get(partition.topic_id)
        return topic is not None and topic.name == GAMBLES

    def _begin(self, phase: str) -> None:
        if self.kernel.stop_reason is None:
            self.kernel.digest.add_happening((phase,))
            if self.story is not None:
                self.story.world("PhaseBegan", f"── {phase}")

    def _not_whole(self) -> str | None:
        missing = rules.unfinished(self.cluster.servers)
        if missing is None and self._owed is not None:
            overdue = self._owed.overdue(self.cluster.servers.values(), self.kernel.now_ms)
            if overdue is not None:
                self._report(FORGOTTEN, overdue)
        return missing or self.workload.unfinished()

    def _from_now(self, faults: tuple[NodeFault, ...]) -> tuple[NodeFault, ...]:
        now_ms = self.kernel.now_ms
        return tuple(fault._replace(at_ms=fault.at_ms + now_ms) for fault in faults)

    # -- time

    def _advance(self, duration_us: int) -> bool:
        """Let time pass; False if the run is over."""
        if self.kernel.stop_reason is not None:
            return False
        end_us = self.kernel.now_us + duration_us
        if self._until_us is not None:
            end_us = max(self.kernel.now_us, min(end_us, self._until_us))
        self.kernel.run(end_us, STEP_LIMIT)
        if self.kernel.steps >= STEP_LIMIT:
            self._report(STEPS, f"{self.kernel.steps} steps by {self.kernel.now_ms} ms")
        if self._until_us is not None and self.kernel.now_us >= self._until_us:
            self.kernel.stop(STOPPED_EARLY)
        return self.kernel.stop_reason is None

    def _until(self, what: Missing, limit_us: int, rule: str = rules.STUCK) -> bool:
        """Let time pass until nothing is missing; False if the run is over."""
        end_us = self.kernel.now_us + limit_us
        while (missing := what()) is not None:
            if self.kernel.now_us >= end_us:
                self._report(rule, f"after {limit_us // 1_000_000} s: {missing}")
            if not self._advance(LOOK_EVERY_US):
                return False
        return True

    def _finish(self, task: asyncio.Task[None], limit_us: int) -> bool:
        """Let time pass until a client is done; False if the run is over."""
        if not self._until(lambda: None if task.done() else f"a client waits: {task}", limit_us):
            return False
        error = task.exception()
        if error is not None:
            self._report(rules.FAILED, f"a client on a healthy cluster: {error!r}")
        return error is None

    # -- what is heard

    def _on_fault(self, text: str) -> None:
        self.kernel.digest.add_happening((text,))
        if self.story is not None:
            self.story.world("Fault", f"fault: {text}")

    def _on_life(self, node_id: int, what: str) -> None:
        if self.story is not None:
            self.story.life(node_id, what)

    def _on_event(self, node_id: int, event: Event) -> None:
        self.kernel.digest.add_happening((node_id, *event))
        if self.story is not None:
            self.story.event(node_id, event)
        self._event_rules.on_event(event)
        self.judging.on_event(node_id, event)

    def _on_problem(self, node_id: int, text: str) -> None:
        self._report(rules.FAILED, f"node {node_id}: {text}")

    def _on_held(self, node_id: int, text: str) -> None:
        self._report(rules.HELD, f"node {node_id}: {text}")

    def _on_client_error(self, message: str, error: BaseException | None) -> None:
        self._report(rules.FAILED, f"a client: {message}: {error!r}")

    def _report(self, rule: str, text: str) -> None:
        self.violations.append(Violation(rule, self.kernel.now_ms, text))
        if self.story is not None:
            self.story.world("RuleBroken", f"BROKEN {rule}: {text}")
        self.kernel.stop(rule)

    def _result(self) -> SeedResult:
        return SeedResult(
            seed=self.plan.seed,
            steps=self.kernel.steps,
            simulated_ms=self.kernel.now_ms,
            acknowledged=len(self.workload.history.acknowledged),
            refused=self.workload.history.failed,
            timed_out=0,
            lost=self._lost,
            forfeited=self._forfeited,
            violations=tuple(self.violations),
            marks=dict(sorted(self.judging.marks.counts.items())),
            faults=dict(sorted(self.faults.counts.items())),
            declined=dict(sorted(self.faults.declined.items())),
            digest=self.kernel.digest.hexdigest(),
            traceback=self._traceback,
        )


@contextmanager
def _no_journal() -> Iterator[None]:
    """Events tell what happens; lines of the journal would only cost time."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
