"""The simulated cluster itself: sound code passes every seed, broken code does not get far."""

import importlib

import pytest

from tidelog.sim import mutation
from tidelog.sim.marks import MARKS
from tidelog.sim.results import ASSERTION
from tidelog.sim.rules import ALL_RULES
from tidelog.sim.run import run_seed

SEEDS = 60
CHUNK = 6
MUTANT_SEEDS = 15

# How fast each dies, and of which kind of rule, was measured; any rule of the kind will do.
KILLED_BY = {
    "M1": ("acknowledgement_rules",),
    "M2": ("watermark_rules",),
    "M3": ("isr_rules", "leadership_rules", "log_rules"),
    "M5": ("leadership_rules", "log_rules"),
    "M9": ("watermark_rules",),
    "M11": ("consumer_rules",),
    "M12": ("consumer_rules",),
    "M14": ("quorum_rules",),
    "M15": ("quorum_rules",),
    "M16": ("quorum_rules",),
    "M17": ("controller_rules",),
    "M21": ("isr_rules",),
    "M24": ("controller_rules",),
    "M26": ("acknowledgement_rules",),
    "M30": ("transaction_rules",),
    "M31": ("group_rules",),
    "M32": ("group_rules",),
    "M34": ("group_rules",),
}


def kind_of(rule: str | None) -> str:
    for known in ALL_RULES:
        if known.name == rule:
            return known.__module__.rpartition(".")[2]
    return f"no rule: {rule}"


@pytest.mark.parametrize(
    ("seed", "why"),
    [
        (446, "a coordinator whose log was lost gave a producer epoch out again"),
        (1793, "a paused coordinator told offsets as they were when it was asked"),
    ],
)
def test_what_is_allowed_is_not_reported(seed, why):
    assert run_seed(seed).violations == (), why


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_sound_code_breaks_no_rule(first):
    for seed in range(first, first + CHUNK):
        result = run_seed(seed)
        assert result.violations == (), f"tidelog sim run --seed {seed}"
        assert set(result.marks) <= set(MARKS)


@pytest.mark.parametrize("name", KILLED_BY)
def test_a_mutant_dies_within_a_few_seeds(name):
    mutant = mutation.find(name)
    # So its plans are those that sound code has passed above.
    assert mutant.focus == ()
    assert MUTANT_SEEDS <= SEEDS
    for seed in range(MUTANT_SEEDS):
        result = run_seed(seed, mutant=name)
        if result.rule == ASSERTION:
            continue  # the mutant was noticed by the code it broke: the rule has yet to show it
        if result.violations:
            assert kind_of(result.rule) in KILLED_BY[name], result.violations[0]
            return
    pytest.fail(f"{name} survived {MUTANT_SEEDS} seeds: {mutant.title}")


def test_a_mutant_leaves_nothing_behind():
    for patch in importlib.import_module(mutation.PACKAGE).catalogue()[1].patches:
        before = getattr(patch.owner, patch.attribute)
        run_seed(0, mutant="M2")
        assert getattr(patch.owner, patch.attribute) is before
