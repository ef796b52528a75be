"""Production nodes in the simulator: they live through faults, runs repeat, and rules can fail."""

import json
import os
import subprocess
import sys

import pytest

from tidelog.sim.nodes.run import run_node_seed, tell_node_seed


@pytest.mark.parametrize("seed", range(6))
def test_whole_nodes_keep_their_promises_through_the_faults_of_a_seed(seed):
    result = run_node_seed(seed)
    assert result.violations == ()
    assert result.acknowledged > 100
    assert sum(result.faults.values()) > 0


def digest_of(seeds, hash_seed):
    command = ("sim", "run", "--depth", "node", "--seeds", str(seeds), "--jobs", "1", "-o", "json")
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


@pytest.mark.parametrize(
    ("mutant", "focus"),
    [
        ("M1", ("isolate", "kill")),
        ("M3", ("isolate", "kill")),
        ("S2", ("power_loss", "pause")),
    ],
)
def test_whole_nodes_with_a_broken_rule_break_a_promise(mutant, focus):
    results = (run_node_seed(seed, focus=focus, mutant=mutant) for seed in range(5))
    broken = next((result.rule for result in results if result.violations), None)
    assert broken is not None, f"{mutant} survived"


def test_a_story_tells_the_faults_and_what_the_nodes_did():
    told = tell_node_seed(6)
    lines = list(told.lines(everything=False))
    assert lines[0].startswith("seed 6 · ")
    assert lines[1].startswith("columns: nodes 1, 2, …")
    assert any("fault: kill node" in line for line in lines)
    assert any(" starts" in line and "↑" in line for line in lines)
    assert any(" leads, leader epoch " in line and "♛" in line for line in lines)
    assert any("everything is healed" in line for line in lines)
