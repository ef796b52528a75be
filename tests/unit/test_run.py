"""One run: its phases, what ends it, and that it is the same every time."""

import gc
import json

import pytest

from support import toy_world
from support.toy_world import RULE, ToyWorld, assemble, assemble_strict
from tidelog.sim import mutation, replay_file
from tidelog.sim import run as runs
from tidelog.sim.kernel import WORLD
from tidelog.sim.plan import draw_plan
from tidelog.sim.results import ASSERTION, EXCEPTION
from tidelog.sim.run import Run, run_plan, run_seed


def failing_seed():
    return next(s for s in range(500) if run_seed(s, assemble=assemble_strict).violations)


def with_world(world_class):
    def build(plan, kernel, trace, report):
        world = world_class(plan, kernel, trace, report)
        return world, world

    return build


def test_the_same_seed_runs_the_same_way_to_the_last_step():
    first, second = (run_seed(11, assemble=assemble) for _ in range(2))
    assert first == second
    assert first.steps > 100
    assert first.digest != run_seed(12, assemble=assemble).digest


def test_a_run_goes_through_all_phases_and_ends_with_the_judges_last_word():
    run = Run(draw_plan(2), assemble=assemble, whole_story=True)
    result = run.execute()
    phases = [line.partition("── ")[2] for line in run.trace.story() if "── " in line]
    assert phases == [
        "calm",
        "chaos",
        "liveness: a sufficient core is healed",
        "liveness: everything is healed",
    ]
    assert isinstance(run.world, ToyWorld)
    assert run.world.finished
    assert run.world.sweeps >= result.steps // runs.SWEEP_EVERY_STEPS
    assert result.violations == ()
    assert result.simulated_ms >= run.plan.duration_ms


def test_faults_are_counted_by_kind_and_declined_ones_apart():
    plan = next(p for p in map(draw_plan, range(100)) if len({f.kind for f in p.faults}) > 8)
    result = run_plan(plan, assemble=assemble)
    assert set(result.faults) <= {"crash", "isolate"}
    assert sum(result.faults.values()) + sum(result.declined.values()) == len(plan.faults)


def test_the_first_broken_rule_ends_the_run():
    seed = failing_seed()
    run = Run(draw_plan(seed), assemble=assemble_strict)
    result = run.execute()
    assert result.rule == RULE
    assert len(result.violations) == 1
    assert result.violations[0].at_ms == result.simulated_ms < run.plan.duration_ms
    assert "BROKEN" in list(run.trace.story())[-1]


def test_a_failed_assertion_is_a_violation_with_its_text_and_place():
    class Asserting(ToyWorld):
        def _greet(self, node):
            assert self._kernel.now_ms < 300, f"high watermark 7 above log end {node}"
            super()._greet(node)

    result = run_seed(1, assemble=with_world(Asserting))
    assert result.rule == ASSERTION
    text = result.violations[0].text
    assert "high watermark 7 above log end" in text
    assert "test_run.py:" in text
    assert "in _greet" in text
    assert "Traceback" in result.traceback


def test_any_other_exception_is_a_violation_too():
    class Crashing(ToyWorld):
        def heal(self, *, everything):
            raise KeyError("no such replica")

    result = run_seed(1, assemble=with_world(Crashing))
    assert result.rule == EXCEPTION
    assert "KeyError: 'no such replica'" in result.violations[0].text


def test_a_cluster_that_never_settles_breaks_liveness_and_says_what_is_missing():
    class Stuck(ToyWorld):
        def unfinished(self):
            return "orders-0 has no leader"

    result = run_seed(1, assemble=with_world(Stuck))
    assert result.rule == runs.LIVENESS_CORE
    assert "orders-0 has no leader" in result.violations[0].text


def test_a_cluster_that_settles_only_half_breaks_the_second_liveness():
    class HalfStuck(ToyWorld):
        healed = False

        def heal(self, *, everything):
            super().heal(everything=everything)
            self.healed = everything

        def unfinished(self):
            return "replica 3 differs" if self.healed else None

    assert run_seed(1, assemble=with_world(HalfStuck)).rule == runs.LIVENESS_ALL


def test_a_run_in_circles_is_ended_by_the_step_limit(monkeypatch):
    monkeypatch.setattr(runs, "STEP_LIMIT", 5_000)

    class Circling(ToyWorld):
        def start(self):
            self._kernel.call_in(0, WORLD, self._round, None)

        def _round(self, _):
            self._kernel.call_in(0, WORLD, self._round, None)

    result = run_seed(1, assemble=with_world(Circling))
    assert result.rule == runs.STEPS
    assert result.steps == 5_000


def test_the_collector_is_as_before_after_a_run_that_failed():
    assert gc.isenabled()
    run_seed(failing_seed(), assemble=assemble_strict)
    assert gc.isenabled()


def test_a_mutant_holds_for_its_run_only(monkeypatch):
    toy_world.install(monkeypatch)
    seed = failing_seed()
    assert run_seed(seed, mutant="intolerant").rule == RULE
    assert run_seed(seed).rule is None


def test_an_unknown_mutant_and_absent_mutants_are_told_apart(monkeypatch):
    toy_world.install(monkeypatch)
    with pytest.raises(mutation.UnknownMutantError):
        run_seed(1, mutant="nobody")
    monkeypatch.setattr(mutation, "PACKAGE", "tidelog.sim.no_mutants_here")
    with pytest.raises(mutation.MutantsAbsentError, match="source checkout"):
        run_seed(1, mutant="intolerant")


def test_a_replay_file_brings_back_the_plan_and_the_violation(tmp_path):
    seed = failing_seed()
    plan = draw_plan(seed)
    result = run_plan(plan, assemble=assemble_strict)
    path = tmp_path / "bug.json"
    replay_file.write(path, plan, result, mutant=None)
    replay = replay_file.read(path)
    assert replay.plan == plan
    assert replay.violation == result.violations[0]
    assert run_plan(replay.plan, assemble=assemble_strict).digest == replay.digest


@pytest.mark.parametrize(
    ("content", "complaint"),
    [("{", "not JSON"), ("[]", "no plan"), ('{"plan": {"format": 7}}', "plan format 7")],
)
def test_a_file_that_is_no_replay_is_refused_with_a_reason(tmp_path, content, complaint):
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(replay_file.ReplayFileError, match=complaint):
        replay_file.read(path)


def test_a_result_is_plain_enough_for_json():
    result = run_seed(1, assemble=assemble)
    assert json.loads(json.dumps(result._asdict()))["digest"] == result.digest
