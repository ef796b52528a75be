"""A seed is a run: the same steps every time, in any process, on any number of cores.

Every claim about a seed rests on this. The digest is over every step and every happening, so
equal digests mean equal runs.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tidelog
from tidelog.sim.fleet import Orders, run_fleet
from tidelog.sim.plan import draw_plan, from_json, to_json
from tidelog.sim.run import run_plan, run_seed

SOURCE = Path(tidelog.__file__).parents[1]
SEEDS = (0, 3, 10, 13, 18, 5, 24)
"""The last two have coordinators."""

PRINT_DIGESTS = """
import sys
from tidelog.sim.run import run_seed
for seed in map(int, sys.argv[1:]):
    print(run_seed(seed).digest)
"""


@pytest.fixture(scope="module")
def digests() -> list[str]:
    return [run_seed(seed).digest for seed in SEEDS]


def digests_of_another_process(hash_seed: str) -> list[str]:
    told = subprocess.run(
        [sys.executable, "-c", PRINT_DIGESTS, *map(str, SEEDS)],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return told.stdout.split()


def test_the_same_seed_is_the_same_run_again(digests):
    assert [run_seed(seed).digest for seed in SEEDS] == digests


@pytest.mark.parametrize("hash_seed", ["0", "1", "random"])
def test_another_process_with_another_hash_seed_does_the_same(digests, hash_seed):
    assert digests_of_another_process(hash_seed) == digests


def test_runs_with_and_without_coordinators_are_looked_at():
    coordinated = [draw_plan(seed).coordination is not None for seed in SEEDS]
    assert coordinated == [False] * 5 + [True] * 2


def test_different_seeds_are_different_runs(digests):
    assert len(set(digests)) == len(SEEDS)


def test_what_a_seed_came_to_is_the_same_too():
    first, second = run_seed(13), run_seed(13)
    assert first == second
    assert first.marks, "a run that reached nothing rare would show little"


def test_a_fleet_of_two_processes_adds_up_to_what_one_does():
    alone = run_fleet(Orders(first=12, seeds=10, jobs=1), run_seed)
    together = run_fleet(Orders(first=12, seeds=10, jobs=2), run_seed)
    assert alone.digest() == together.digest()
    assert alone.digests == together.digests
    assert alone.marks == together.marks


@pytest.mark.parametrize("seed", [3, 18])
def test_a_plan_that_went_through_a_file_is_the_same_run(seed):
    plan = draw_plan(seed)
    read_back = from_json(json.loads(json.dumps(to_json(plan))))
    assert read_back == plan
    assert run_plan(read_back).digest == run_seed(seed).digest


def test_a_run_stopped_early_is_the_beginning_of_the_whole_one():
    plan = draw_plan(9)
    whole, half = run_plan(plan), run_plan(plan, until_ms=plan.duration_ms // 2)
    assert half.simulated_ms == plan.duration_ms // 2
    assert half.steps < whole.steps
    assert half.violations == ()
