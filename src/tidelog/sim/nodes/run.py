"""One whole-node run: calm, faults, healing, and the judgement of what clients were told."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple

from tidelog.core.events import Event
from tidelog.observe import journal
from tidelog.observe.render import Renderer
from tidelog.sim import mutation
from tidelog.sim.kernel import Kernel
from tidelog.sim.nodes import rules
from tidelog.sim.nodes.clients.client_rules import judge_history
from tidelog.sim.nodes.cluster import NodeCluster
from tidelog.sim.nodes.fault_kinds import NodeFault
from tidelog.sim.nodes.faults import NodeFaults
from tidelog.sim.nodes.judging import Judging
from tidelog.sim.nodes.plan import NodePlan, draw_node_plan
from tidelog.sim.nodes.workload import Workload
from tidelog.sim.run import SeedResult, quiet_collector
from tidelog.sim.world_port import Violation

STEP_LIMIT: Final = 5_000_000
LOOK_EVERY_US: Final = 100_000
START_LIMIT_US: Final = 30_000_000
SETTLE_US: Final = 2_000_000
"""Writers go on for so long after everything was healed."""
HEAL_LIMIT_US: Final = 60_000_000
READ_LIMIT_US: Final = 120_000_000


def run_node_seed(seed: int, *, focus: Sequence[str] = (), mutant: str | None = None) -> SeedResult:
    with quiet_collector(), _no_journal(), mutation.applied(mutant):
        return NodeRun(draw_node_plan(seed, focus)).execute()


def tell_node_seed(seed: int, *, focus: Sequence[str] = (), mutant: str | None = None) -> "Told":
    """The same with its story."""
    with quiet_collector(), _no_journal(), mutation.applied(mutant):
        run = NodeRun(draw_node_plan(seed, focus))
        run.story = []
        return Told(run.plan, run.execute(), run.story)


class Moment(NamedTuple):
    at_ms: int
    node: int
    """0: the world, which breaks things and heals them."""
    event: str
    text: str
    silent: bool
    """True and too many: shown on request."""


class Told(NamedTuple):
    """A run and its story."""

    plan: NodePlan
    result: SeedResult
    story: list[Moment]

    def moments(self) -> list[Moment]:
        return self.story

    def lines(self, *, everything: bool) -> Iterator[str]:
        yield self.plan.headline()
        for moment in self.story:
            if everything or not moment.silent:
                where = f"node {moment.node}" if moment.node else "world"
                yield f"{moment.at_ms / 1000:9.3f}  {where:<7} {moment.text}"


class NodeRun:
    """A run with everything that can be looked at afterwards."""

    def __init__(self, plan: NodePlan) -> None:
        self.plan = plan
        self.kernel = Kernel(plan.seed)
        self.violations: list[Violation] = []
        self.story: list[Moment] | None = None
        """What happened, if somebody wants to read it."""
        self._topics = Renderer(self._topic_name)
        self._event_rules = rules.EventRules(self._report)
        self.cluster = NodeCluster(self.kernel, plan.seed, plan.cluster)
        self.workload = Workload(self.cluster, plan, self._on_client_error)
        self.faults = NodeFaults(self.cluster, self.workload.elect, self._on_fault)
        self.judging = Judging(self.cluster, self._report)
        self._lost = 0

    def execute(self) -> SeedResult:
        try:
            with self.judging.attending():
                self._live()
        finally:
            self.cluster.bury()
        return self._result()

    def _live(self) -> None:
        for server in self.cluster.servers.values():
            server.report_to(self._on_event, self._on_problem)
            server.work.on_too_long = partial(self._on_held, server.node_id)
            server.start()
        if not self._until_whole(START_LIMIT_US):
            return
        if not self._finish(self.workload.create_topics(), START_LIMIT_US):
            return
        self.workload.begin()
        self.faults.schedule(self._from_now(self.plan))
        self._advance(self.plan.phases.duration_ms * 1000)
        self.faults.heal()
        self._advance(SETTLE_US)
        self.workload.stop()
        if not self._until_whole(HEAL_LIMIT_US):
            return
        if self._finish(self.workload.read_back(), READ_LIMIT_US):
            self._lost = judge_history(self.workload.history, self._report)
            self.judging.finish()

    def _from_now(self, plan: NodePlan) -> tuple[NodeFault, ...]:
        now_ms = self.kernel.now_ms
        return tuple(fault._replace(at_ms=fault.at_ms + now_ms) for fault in plan.faults)

    def _advance(self, duration_us: int) -> None:
        if self.kernel.stop_reason is None:
            self.kernel.run(self.kernel.now_us + duration_us, STEP_LIMIT)
            if self.kernel.steps >= STEP_LIMIT:
                self._report("step limit", f"{self.kernel.steps} steps")

    def _until_whole(self, limit_us: int) -> bool:
        end_us = self.kernel.now_us + limit_us
        while self.kernel.stop_reason is None:
            missing = rules.unfinished(self.cluster.servers)
            if missing is None:
                return True
            if self.kernel.now_us >= end_us:
                self._report(rules.STUCK, f"after {limit_us // 1_000_000} s: {missing}")
                return False
            self._advance(LOOK_EVERY_US)
        return False

    def _finish(self, task: asyncio.Task[None], limit_us: int) -> bool:
        end_us = self.kernel.now_us + limit_us
        while not task.done() and self.kernel.stop_reason is None:
            if self.kernel.now_us >= end_us:
                self._report(rules.STUCK, f"a client waits for {limit_us // 1_000_000} s: {task}")
                return False
            self._advance(LOOK_EVERY_US)
        if not task.done():
            return False
        error = task.exception()
        if error is not None:
            self._report(rules.FAILED, f"a client on a healthy cluster: {error!r}")
        return error is None

    # -- what is heard

    def _topic_name(self, topic_id: bytes) -> str | None:
        nodes = (server.node for server in self.cluster.servers.values())
        names = (None if node is None else node.topic_name(topic_id) for node in nodes)
        return next((name for name in names if name is not None), None)

    def _on_fault(self, text: str) -> None:
        if self.story is not None:
            self.story.append(Moment(self.kernel.now_ms, 0, "Fault", text, silent=False))

    def _on_event(self, node_id: int, event: Event) -> None:
        self.kernel.digest.add_happening((node_id, *event))
        if self.story is not None:
            name, text = type(event).__name__, self._topics.line(event)
            self.story.append(
                Moment(self.kernel.now_ms, node_id, name, text, journal.is_silent(event))
            )
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
        self._on_fault(f"broken: {rule}: {text}")
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
            forfeited=0,
            violations=tuple(self.violations),
            marks={},
            faults=dict(sorted(self.faults.counts.items())),
            declined=dict(sorted(self.faults.declined.items())),
            digest=self.kernel.digest.hexdigest(),
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
