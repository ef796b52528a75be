"""Shrinking: the smallest plan found still breaks the same rule, and makes sense."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from support.toy_world import RULE, assemble_strict
from tidelog.sim.faults import Fault
from tidelog.sim.plan import draw_plan
from tidelog.sim.run import run_plan
from tidelog.sim.shrink import (
    minimise,
    shrink,
    with_fewer_partitions,
    without_broker,
    without_topic,
)


@given(st.lists(st.integers(0, 40), unique=True, max_size=40), st.data())
def test_minimise_finds_exactly_the_guilty_when_all_of_them_are_needed(items, data):
    guilty = data.draw(st.sets(st.sampled_from(items))) if items else set()
    found = minimise(items, lambda some: guilty <= set(some))
    assert set(found) == guilty
    assert found == [item for item in items if item in guilty]


def test_minimise_leaves_nothing_that_could_go_alone():
    # Fails with any two even numbers: many minima, each of size two.
    found = minimise(range(20), lambda some: sum(n % 2 == 0 for n in some) >= 2)
    assert len(found) == 2


def failing_plan():
    for seed in range(500):
        plan = draw_plan(seed)
        if run_plan(plan, assemble=assemble_strict).rule == RULE and len(plan.faults) > 10:
            return plan
    raise AssertionError("no seed of the toy fails")


def test_a_failure_of_the_toy_shrinks_to_the_two_faults_it_needs():
    plan = failing_plan()
    shrunk = shrink(plan, RULE, lambda p: run_plan(p, assemble=assemble_strict).rule)
    assert run_plan(shrunk.plan, assemble=assemble_strict).rule == RULE
    assert sorted(fault.kind for fault in shrunk.plan.faults) == ["crash", "isolate"]
    assert shrunk.plan.brokers <= 2
    assert shrunk.plan.producers == ()
    assert shrunk.plan.consumers == ()
    assert shrunk.plan.phases.chaos_ms <= plan.phases.chaos_ms
    assert shrunk.plan.network.loss == 0


def test_a_plan_that_breaks_another_rule_is_not_taken():
    plan = replace(draw_plan(3), faults=tuple(Fault(n, "crash", (1,)) for n in range(10)))

    def fails(candidate):
        return "the rule" if len(candidate.faults) >= 4 else "another rule"

    assert len(shrink(plan, "the rule", fails).plan.faults) == 4


def test_the_search_ends_when_its_time_or_its_tries_are_over():
    plan = failing_plan()
    tried = []

    def fails(candidate):
        tried.append(candidate)
        return RULE if candidate.faults else None

    assert shrink(plan, RULE, fails, tries_max=5).tries == 5
    assert len(tried) == 5
    assert shrink(plan, RULE, fails, expired=lambda: True).plan == plan


def test_what_came_after_the_violation_goes_first():
    plan = next(p for p in map(draw_plan, range(50)) if len(p.faults) > 9)
    broke_at_ms = plan.faults[3].at_ms + 1
    tried = []

    def fails(candidate):
        tried.append(candidate)
        return RULE if candidate.faults[:4] == plan.faults[:4] else None

    shrunk = shrink(plan, RULE, fails, broke_at_ms=broke_at_ms).plan
    assert tried[0].faults == plan.faults[:4]
    assert tried[0].duration_ms == broke_at_ms + 1
    assert shrunk.faults == plan.faults[:4]


def test_faults_that_do_not_need_to_wait_happen_sooner():
    plan = next(p for p in map(draw_plan, range(50)) if p.phases.chaos_ms > 10_000)
    late = plan.phases.calm_ms + 8_000
    plan = replace(plan, faults=(Fault(late, "crash", (1,)), Fault(late + 700, "pause", (1,))))
    kinds = ["crash", "pause"]
    shrunk = shrink(plan, RULE, lambda p: RULE if [f.kind for f in p.faults] == kinds else None)
    first, second = shrunk.plan.faults
    assert first.at_ms == plan.phases.calm_ms
    assert second.at_ms == first.at_ms + 700
    assert second.at_ms < shrunk.plan.duration_ms < plan.duration_ms


def test_fewer_brokers_leave_a_plan_that_makes_sense():
    for seed in range(300):
        plan = draw_plan(seed)
        if plan.brokers == 1:
            continue
        smaller = without_broker(plan, 1 + seed % plan.brokers)
        assert 1 <= smaller.voters <= smaller.brokers
        assert len(smaller.clocks) == smaller.brokers
        for fault in smaller.faults:
            assert all(1 <= node <= smaller.brokers for node in fault.nodes)
            assert fault.kind not in ("one_way", "clog") or len(fault.nodes) == 2
            assert fault.kind != "split" or len(fault.nodes) < smaller.brokers
        for topic in smaller.topics:
            assert topic.min_insync_replicas <= topic.replication_factor <= smaller.brokers


def test_brokers_after_the_removed_one_are_renumbered_in_every_fault():
    faults = (Fault(1, "crash", (1,)), Fault(2, "crash", (2,)), Fault(3, "one_way", (3, 1)))
    plan = next(p for p in map(draw_plan, range(50)) if p.brokers == 3)
    smaller = without_broker(replace(plan, faults=faults), 2)
    assert smaller.faults == (Fault(1, "crash", (1,)), Fault(3, "one_way", (2, 1)))


def test_a_topic_goes_with_its_clients_and_the_others_move_up():
    plan = next(p for p in map(draw_plan, range(200)) if len(p.topics) == 2)
    faults = (
        Fault(1, "crash", (1,), topic=0, partition=2),
        Fault(2, "delete_topic", topic=0),
        Fault(3, "crash", (1,), aim="leader", topic=0),
        Fault(4, "crash", (1,), aim="leader", topic=1),
    )
    smaller = without_topic(replace(plan, faults=faults), 0)
    assert smaller.topics == plan.topics[1:]
    assert all(producer.topic == 0 for producer in smaller.producers)
    assert all(consumer.topic == 0 for consumer in smaller.consumers)
    # What hits a node whatever its topic stays; what was about the topic goes with it.
    assert smaller.faults == (
        Fault(1, "crash", (1,)),
        Fault(4, "crash", (1,), aim="leader", topic=0),
    )


def test_a_partition_goes_and_who_used_it_uses_another():
    plan = next(p for p in map(draw_plan, range(200)) if p.topics[0].partitions == 3)
    smaller = with_fewer_partitions(plan, 0)
    assert smaller.topics[0].partitions == 2
    for producer in smaller.producers:
        assert producer.partitions
        assert max(producer.partitions) < smaller.topics[producer.topic].partitions
    assert all(f.partition < smaller.every_topic[f.topic].partitions for f in smaller.faults)
