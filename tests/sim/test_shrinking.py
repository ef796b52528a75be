"""Shrinking whole-node runs: a mutant's failing seed becomes a short story that can be replayed."""

import pytest

from tidelog.sim import mutation
from tidelog.sim.nodes import replay_file
from tidelog.sim.nodes.plan import draw_node_plan
from tidelog.sim.nodes.run import run_node_plan, tell_node_plan
from tidelog.sim.nodes.shrink import shrink

MUTANT = "S2"
TRIES_MAX = 80
SCREEN = 50


@pytest.fixture(scope="module")
def failing():
    """The first short plan that shows the mutant, and how."""
    for seed in range(40):
        plan = draw_node_plan(seed, mutation.focus(MUTANT))
        if plan.phases.chaos_ms <= 12_000 and len(plan.faults) > 4:
            result = run_node_plan(plan, mutant=MUTANT)
            if result.violations and result.simulated_ms < 30_000:
                return plan, result.violations[0]
    pytest.fail(f"{MUTANT} survived")


def test_a_failure_shrinks_to_a_few_faults_that_break_the_same_rule(failing, tmp_path):
    plan, violation = failing
    until_ms = violation.at_ms * 5 // 4 + 1_000
    shrunk = shrink(
        plan,
        violation.rule,
        lambda smaller: run_node_plan(smaller, mutant=MUTANT, until_ms=until_ms).rule,
        broke_at_ms=violation.at_ms,
        tries_max=TRIES_MAX,
    )
    assert len(shrunk.plan.faults) <= 3
    assert shrunk.plan.phases.duration_ms < plan.phases.duration_ms

    told = tell_node_plan(shrunk.plan, mutant=MUTANT)
    assert told.result.rule == violation.rule
    story = list(told.lines(everything=False))
    assert len(story) <= SCREEN
    assert any(f"BROKEN {violation.rule}" in line for line in story)
    assert any(line.startswith("tides-0: leader") for line in story), "the state of the cluster"
    assert run_node_plan(shrunk.plan).violations == (), "sound code passes what is left"

    path = tmp_path / "found.json"
    replay_file.write(path, shrunk.plan, told.result, mutant=MUTANT)
    replay = replay_file.read(path)
    again = run_node_plan(replay.plan, mutant=replay.mutant)
    assert again.digest == replay.digest
    assert again.violations[0] == replay.violation
