"""Whole clusters on real logs and virtual disks: a few seeds, and that they repeat exactly."""

import os
import subprocess
import sys
from collections import Counter

import pytest

from tidelog.sim import mutation
from tidelog.sim.faults import KINDS_OF_BYTES
from tidelog.sim.results import SeedResult
from tidelog.sim.run import run_seed

SEEDS = (3, 4, 7, 10, 13, 18, 28, 63, 91, 166)
SMALL = (13, 91, 166)

PROGRAM = """
from tidelog.sim.run import run_seed
for seed in {seeds}:
    print(run_seed(seed, depth="byte").digest)
"""


@pytest.fixture(scope="module")
def results() -> dict[int, SeedResult]:
    return {seed: run_seed(seed, depth="byte") for seed in SEEDS}


def test_no_rule_is_broken(results) -> None:
    assert {seed: r.violations for seed, r in results.items() if r.violations} == {}
    assert sum(result.acknowledged for result in results.values()) > 1000


def test_disks_fail_in_every_way(results) -> None:
    faults: Counter[str] = Counter()
    marks: Counter[str] = Counter()
    for result in results.values():
        faults.update(result.faults)
        marks.update(result.marks)
    assert all(faults[kind] for kind in KINDS_OF_BYTES), faults
    for mark in ("recovery_cut_mid_batch", "sync_failed", "produce_refused_by_full_disk"):
        assert marks[mark], marks


def test_the_same_seed_does_the_same_again(results) -> None:
    for seed in SMALL:
        assert run_seed(seed, depth="byte").digest == results[seed].digest


def test_the_same_seed_does_the_same_with_another_hash_seed(results) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(seeds=SMALL)],
        capture_output=True,
        text=True,
        check=True,
        env={**environment, "PYTHONHASHSEED": "4711"},
    )
    assert done.stdout.split() == [results[seed].digest for seed in SMALL]


@pytest.mark.parametrize(
    ("mutant", "first_seed"), [pytest.param("M36", 8, marks=pytest.mark.long), ("M37", 0)]
)
def test_broken_storage_is_noticed_at_this_depth_too(mutant, first_seed) -> None:
    assert mutation.find(mutant).depth == "crash"
    seeds = range(first_seed, 40)  # those before the first have nothing to show, and take long
    results = (run_seed(seed, depth="byte", mutant=mutant) for seed in seeds)
    # A replica that cannot come back is noticed by others, too: here by what it recovered.
    noticed = next(result for result in results if result.rule in ("R19 recovery", "exception"))
    assert run_seed(noticed.seed, depth="byte").violations == ()
