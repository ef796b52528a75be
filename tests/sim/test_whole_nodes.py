"""Production nodes in the simulator: they live through faults, runs repeat, and rules can fail."""

import gc
import json
import os
import subprocess
import sys

import pytest

from tidelog.sim.nodes import replay_file
from tidelog.sim.nodes.plan import draw_node_plan
from tidelog.sim.nodes.run import NodeRun, run_node_plan, run_node_seed, tell_node_seed


@pytest.mark.parametrize("seed", range(6))
def test_whole_nodes_keep_their_promises_through_the_faults_of_a_seed(seed):
    result = run_node_seed(seed)
    assert result.violations == ()
    assert result.acknowledged > 100
    assert sum(result.faults.values()) > 0


def digest_of(seeds, hash_seed):
    command = ("sim", "run", "--seeds", str(seeds), "--jobs", "1", "-o", "json")
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    ran = subprocess.run(
        [sys.executable, "-m", "tidelog", *command],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(ran.stdout)["digest"]


def test_a_seed_does_the_same_in_every_process():
    assert digest_of(2, "1") == digest_of(2, "2")


def test_a_seed_does_the_same_again_and_from_a_file_and_as_a_story(tmp_path):
    first = run_node_seed(6)
    assert run_node_seed(6) == first
    path = tmp_path / "seed-6.json"
    replay_file.write(path, draw_node_plan(6), first, mutant=None)
    replay = replay_file.read(path)
    assert run_node_plan(replay.plan).digest == replay.digest == first.digest
    assert tell_node_seed(6).result == first
    assert run_node_seed(7).digest != first.digest


def test_a_run_that_is_stopped_early_is_the_beginning_of_the_whole_one():
    plan = draw_node_plan(6)
    half = run_node_plan(plan, until_ms=plan.phases.duration_ms // 2)
    assert half.simulated_ms == plan.phases.duration_ms // 2
    assert half.violations == ()


def test_a_story_tells_the_faults_and_what_the_nodes_did():
    told = tell_node_seed(6)
    lines = list(told.lines(everything=False))
    assert lines[0].startswith("seed 6 · ")
    assert lines[1].startswith("columns: nodes 1, 2, …")
    assert any("fault: kill node" in line for line in lines)
    assert any(" starts" in line and "↑" in line for line in lines)
    assert any(" leads, leader epoch " in line and "♛" in line for line in lines)
    assert any("everything is healed" in line for line in lines)


def runs_in_memory():
    return sum(isinstance(each, NodeRun) for each in gc.get_objects())


def test_a_finished_run_leaves_nothing_in_memory():
    """Seed 22 kills a node that serves a request: its task never hears of an end."""
    before = runs_in_memory()
    run_node_seed(22)
    assert runs_in_memory() == before


@pytest.mark.parametrize("seed", [0, 6])
def test_rules_and_marks_look_at_a_run_and_change_nothing_of_it(seed):
    judged, plain = (
        NodeRun(draw_node_plan(seed), judged=judged).execute() for judged in (True, False)
    )
    assert judged.marks
    assert not plain.marks
    assert plain.digest == judged.digest


@pytest.mark.parametrize(
    ("plot", "seed", "mark"),
    [
        ("crash_amid_cut", 702, "crash_amid_a_cut"),
        ("slow_cut", 703, "sync_ended_after_a_cut"),
    ],
)
def test_a_plot_about_cuts_reaches_the_state_it_is_for(plot, seed, mark):
    result = run_node_seed(seed, focus=(plot, "writers"))
    assert result.violations == ()
    assert result.marks[mark] > 0
