"""Shrinking on the real cluster: a mutant's failing seed becomes a short story."""

import pytest

from tidelog.sim import replay_file
from tidelog.sim.run import Run, plan_for, run_plan
from tidelog.sim.shrink import shrink

MUTANT = "M3"
TRIES_MAX = 60


@pytest.fixture(scope="module")
def failing():
    """The first short plan that shows the mutant, and how. Without groups and transactions, whose
    many events make no difference to it."""
    for seed in range(60):
        plan = plan_for(seed, mutant=MUTANT)
        alone = plan.coordination is None
        if alone and plan.duration_ms <= 12_000 and len(plan.faults) > 4:
            result = run_plan(plan, mutant=MUTANT)
            if result.violations:
                return plan, result.violations[0]
    pytest.fail(f"{MUTANT} survived")


def test_a_failure_shrinks_to_a_few_faults_that_break_the_same_rule(failing, tmp_path):
    plan, violation = failing
    until_ms = violation.at_ms * 5 // 4 + 1_000
    shrunk = shrink(
        plan,
        violation.rule,
        lambda smaller: run_plan(smaller, mutant=MUTANT, until_ms=until_ms).rule,
        broke_at_ms=violation.at_ms,
        tries_max=TRIES_MAX,
    )
    assert len(shrunk.plan.faults) <= 4
    assert shrunk.plan.duration_ms < plan.duration_ms

    run = Run(shrunk.plan, whole_story=True)
    result = run.execute(mutant=MUTANT)
    assert result.rule == violation.rule
    story = list(run.trace.story())
    assert len(story) <= 120
    assert any(f"BROKEN {violation.rule}" in line for line in story)
    assert run_plan(shrunk.plan).violations == (), "sound code passes what is left"

    path = tmp_path / "found.json"
    replay_file.write(path, shrunk.plan, result, mutant=MUTANT)
    replay = replay_file.read(path)
    again = Run(replay.plan).execute(mutant=replay.mutant)
    assert again.digest == replay.digest
    assert again.violations[0] == replay.violation
