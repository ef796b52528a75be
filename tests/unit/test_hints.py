"""Hints in a simulated cluster: who is found dead, how soon, and who never is."""

from dataclasses import replace

import pytest

from tidelog.core import events
from tidelog.sim.faults import Fault
from tidelog.sim.happenings import NodeStopped
from tidelog.sim.hints import HintPlan
from tidelog.sim.network import NetworkPlan
from tidelog.sim.plan import ClockPlan, Plan, draw_plan
from tidelog.sim.run import Run

SESSION_MS = 2_000
AT_MS = 4_000
PROMPT = HintPlan(delay_us_max=2_000, unanswered=0, late=0, late_ms_max=1)
SOON_MS = 100
"""A hint, a probe there and back, and a commit: everything on fast links."""


def calm_plan(*faults: Fault, hints: HintPlan | None = PROMPT) -> Plan:
    """Three combined nodes on a good network with sessions of two seconds."""
    drawn = next(p for p in map(draw_plan, range(100)) if p.brokers == p.voters == 3)
    return replace(
        drawn,
        network=NetworkPlan(ordered=True),
        timings=replace(
            drawn.timings,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=200,
            quorum_fetch_timeout_ms=SESSION_MS,
            election_timeout_ms=1_000,
            request_timeout_ms=300,
            sync_delay_us_min=100,
            sync_delay_us_max=1_000,
        ),
        clocks=tuple(ClockPlan(0, 1_000_000) for _ in range(3)),
        phases=replace(drawn.phases, calm_ms=AT_MS - 1, chaos_ms=10_000),
        faults=faults,
        hints=hints,
    )


class Story:
    """What was told from the first fault on, until the healing begins."""

    def __init__(self, plan: Plan) -> None:
        run = Run(plan, whole_story=True, until_ms=plan.duration_ms)
        self.result = run.execute()
        assert self.result.violations == ()
        self.told = [
            (moment.at_us // 1000 - AT_MS, moment.happening)
            for moment in run.trace.moments()
            if moment.at_us >= AT_MS * 1000
        ]

    def first(self, kind: type) -> int | None:
        """After how many milliseconds something of this kind happened."""
        return next(
            (after_ms for after_ms, happening in self.told if type(happening) is kind), None
        )


def crash(aim: str = "", *, kind: str = "crash", duration_ms: int = 6_000) -> Fault:
    return Fault(AT_MS, kind, nodes=(3,), duration_ms=duration_ms, args=(0,), aim=aim)


def reset(after_ms: int, node: int = 3) -> Fault:
    return Fault(AT_MS + after_ms, "connection_reset", nodes=(node,))


def test_a_killed_broker_is_fenced_at_once_with_hints_and_after_its_session_without():
    hinted = Story(calm_plan(crash())).first(events.BrokerFenced)
    patient = Story(calm_plan(crash(), hints=None)).first(events.BrokerFenced)
    assert hinted is not None
    assert patient is not None
    assert hinted < SOON_MS
    assert patient > SESSION_MS // 2


def test_a_killed_controller_is_replaced_and_its_broker_fenced_at_once():
    story = Story(calm_plan(crash("controller")))
    claimed, fenced = story.first(events.ControllerClaimed), story.first(events.BrokerFenced)
    assert claimed is not None
    assert fenced is not None
    assert claimed < SOON_MS
    assert claimed <= fenced < 2 * SOON_MS
    assert story.result.marks["quorum_hint_started_election"] >= 1
    patient = Story(calm_plan(crash("controller"), hints=None)).first(events.ControllerClaimed)
    assert patient is not None
    assert patient > SESSION_MS // 2


@pytest.mark.parametrize("node", [1, 2, 3])
def test_a_paused_broker_is_not_fenced_however_often_its_connections_close(node):
    pause = Fault(AT_MS, "pause", nodes=(node,), duration_ms=SESSION_MS // 3)
    resets = [reset(100 + 50 * index, node) for index in range(8)]
    story = Story(calm_plan(pause, *resets))
    assert story.first(events.BrokerFenced) is None
    assert story.first(events.QuorumLeaderElected) is None
    assert story.result.marks["hint_of_live_broker_ignored"] > 0


def test_resets_on_a_cut_link_prove_nothing():
    cut = Fault(AT_MS, "one_way", nodes=(1, 2), duration_ms=SESSION_MS // 4)
    story = Story(calm_plan(cut, *(reset(100 * index, 1) for index in range(1, 4))))
    assert story.first(events.BrokerFenced) is None


def test_a_machine_without_power_is_left_to_its_session():
    fenced = Story(calm_plan(crash(kind="power_loss"))).first(events.BrokerFenced)
    assert fenced is not None
    assert fenced > SESSION_MS // 2


def test_a_killed_broker_that_is_started_again_registers_within_its_old_session():
    story = Story(calm_plan(crash(duration_ms=300)))
    assert story.first(NodeStopped) == 0
    registered = story.first(events.BrokerRegistered)
    assert registered is not None
    assert 300 <= registered < 300 + 2 * SOON_MS
