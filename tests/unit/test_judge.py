"""The judge itself: every rule is known, explained, and really listened to."""

import inspect

import pytest

from support.rule_bench import PARTITION, Bench
from tidelog.sim.judge import DERIVED_HOOKS, HOOKS, KEPT_PER_RULE, Judge, fan_out
from tidelog.sim.rules import ALL_RULES, ELSEWHERE, explain
from tidelog.sim.rules.chronicle import Chronicle, ignore
from tidelog.sim.rules.quorum_facts import QuorumFacts
from tidelog.sim.rules.rule import Rule

A, B = 1, 2


OF_OUR_OWN = {"R23", "K21", "X1", "X2", "X3", "X5", "X6", "G1", "G2", "G3", "G4", "G5"}
"""Rules that the design documents do not have: R23 is of ADR 0030, K21 of ADR 0017, X and G are
about transactions and groups (docs/simulation.md)."""


def test_every_rule_of_the_design_is_judged_or_says_who_does():
    numbers = {rule.name.split()[0] for rule in ALL_RULES} | {n.split()[0] for n in ELSEWHERE}
    designed = {f"R{n:02}" for n in range(1, 23)} | {f"K{n:02}" for n in range(1, 21)}
    assert numbers == designed | OF_OUR_OWN


def test_names_are_unique_and_every_rule_is_explained():
    assert len({rule.name for rule in ALL_RULES}) == len(ALL_RULES)
    for rule in ALL_RULES:
        assert explain(rule.name)
    assert explain("R04") == explain("R04 leader completeness")
    assert explain("R20 topic ids") == ELSEWHERE["R20 topic ids"]
    with pytest.raises(KeyError, match="R99"):
        explain("R99")


@pytest.mark.parametrize("listener", [*ALL_RULES, Chronicle, QuorumFacts], ids=lambda c: c.__name__)
def test_a_rule_has_only_hooks_that_are_called_and_with_as_many_arguments(listener):
    own = {"facts", "registered_epoch", "log", "committed_before", "voters"}
    known = {**HOOKS, **DERIVED_HOOKS}
    for name, method in inspect.getmembers(listener, inspect.isfunction):
        if name.startswith("_") or name in vars(Rule) or name in own:
            continue
        assert name in known, f"{listener.__name__}.{name} is never called"
        assert len(inspect.signature(method).parameters) == known[name] + 1, name


def test_every_hook_of_the_world_is_heard_by_somebody_or_known_to_be_silent():
    bench = Bench(A)
    silent = {hook for hook in HOOKS if getattr(bench.judge, hook) is ignore}
    assert silent == {"node_started"}


def test_before_it_attends_a_judge_ignores_everything():
    judge = Judge()
    judge.leader_appended(None, None)
    judge.finish()
    assert judge.verdicts == []
    assert judge.lost == 0


def test_a_judge_attends_one_world_only():
    bench = Bench(A)
    with pytest.raises(AssertionError, match="Bench"):
        bench.judge.attend(bench)


def test_the_first_few_verdicts_of_a_rule_are_kept_and_the_rest_counted():
    heard = []
    judge = Judge(lambda rule, text: heard.append((rule, text)))
    judge.attend(Bench(A))
    for number in range(KEPT_PER_RULE + 4):
        judge.report("R01 log matching", f"broken {number}")
    assert judge.broken == {"R01 log matching": KEPT_PER_RULE + 4}
    assert [text for _, text in heard] == [f"broken {n}" for n in range(KEPT_PER_RULE)]
    assert [verdict.text for verdict in judge.verdicts] == [text for _, text in heard]


def test_happenings_reach_all_listeners_in_order():
    heard = []
    hooks = tuple(lambda *arguments, who=who: heard.append((who, *arguments)) for who in "ab")
    for arity in range(5):
        heard.clear()
        fan_out(hooks, arity)(*range(arity))
        assert heard == [("a", *range(arity)), ("b", *range(arity))]


def test_one_rule_alone_can_be_attended():
    judge = Judge()
    rule = next(rule for rule in ALL_RULES if rule.name.startswith("R07"))
    judge.attend(Bench(A), [rule])
    assert [type(each) for each in judge.rules] == [rule]


def test_the_committed_prefix_grows_with_the_high_watermark_of_leaders():
    bench = Bench(A, B)
    bench.led_by(A)
    bench.append(A, 2)
    bench.append(A)
    bench.copy(A, B)
    bench.fetch(B, A)
    facts = bench.judge.chronicle.facts(PARTITION)
    bench.move(A, 2)
    assert facts.committed_end == 2
    bench.move(A, 3)
    assert sorted(facts.ends) == [2, 3]
    assert facts.committed_by_epoch == {0: 3}
    assert facts.holds_committed(bench[B].log)
    bench[B].log.truncate_to(2)
    assert not facts.holds_committed(bench[B].log)
    assert facts.holds(bench[B].log, 2)
