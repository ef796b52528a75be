"""Broken production code does not get far: the quick ones of `tidelog sim mutants`."""

import pytest

from tidelog.sim import mutation
from tidelog.sim.nodes.run import run_node_seed

SEEDS = 4

QUICK = {
    "M2": "R09 committed on all in-sync replicas",
    "M17": "K16 clean elections",
    "M26": "R13 acknowledged means committed",
    "M53": "A3 nobody is given what he may not have",
    "M54": "A3 nobody is given what he may not have",
    "S2": "R19 recovery",
    "S14": "N6 no callback of a node or client fails",
    "S19": "N6 no callback of a node or client fails",
}


@pytest.mark.parametrize("name", QUICK)
def test_a_mutant_dies_within_a_few_seeds_that_sound_code_passes(name):
    mutant = mutation.find(name)
    for seed in range(SEEDS):
        result = run_node_seed(seed, focus=mutant.focus, mutant=name)
        if result.violations:
            assert result.rule == QUICK[name], result.violations[0]
            assert run_node_seed(seed, focus=mutant.focus).violations == ()
            return
    pytest.fail(f"{name} survived {SEEDS} seeds: {mutant.title}")
