"""The rules of `sim.rules` on production nodes: each family kills a mutant that breaks it."""

import pytest

from tidelog.sim.nodes.run import run_node_seed


@pytest.mark.parametrize(
    ("mutant", "seed", "rule"),
    [
        ("M1", 1, "R13 acknowledged means committed"),
        ("M2", 1, "R09 committed on all in-sync replicas"),
        ("M3", 1, "R05 committed agreement"),
    ],
)
def test_a_broken_production_node_is_caught_by_the_rule_it_breaks(mutant, seed, rule):
    result = run_node_seed(seed, mutant=mutant)
    assert result.rule == rule
