"""Plans: the same for the same seed, whole in a file, and wide over many seeds."""

import json
from collections import Counter

import pytest

from tidelog.sim.faults import AIMS, KINDS, KINDS_OF_BYTES
from tidelog.sim.plan import Plan, draw_plan, from_json, to_json
from tidelog.sim.plots import PLOTS

MANY = 2_000


@pytest.fixture(scope="module")
def plans() -> list[Plan]:
    return [draw_plan(seed) for seed in range(MANY)]


def test_the_same_seed_draws_the_same_plan_and_another_seed_another():
    assert draw_plan(42) == draw_plan(42)
    assert draw_plan(42) != draw_plan(43)


def test_a_plan_survives_its_way_through_json(plans):
    for plan in plans[:200]:
        assert from_json(json.loads(json.dumps(to_json(plan)))) == plan


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        ({"format": 99}, "plan format 99"),
        ({"timings": {}}, "wrong shape"),
        ({"faults": [{"at_ms": 1}]}, "wrong shape"),
    ],
)
def test_a_damaged_plan_is_refused_with_a_reason(damage, complaint):
    with pytest.raises(ValueError, match=complaint):
        from_json({**to_json(draw_plan(1)), **damage})


def test_a_plan_from_before_there_were_hints_is_one_without_them():
    document = to_json(next(plan for plan in map(draw_plan, range(50)) if plan.hints))
    del document["hints"]
    assert from_json(document).hints is None


def test_some_plans_have_hints_and_only_those_have_resets(plans):
    hinted = [plan for plan in plans if plan.hints is not None]
    assert MANY // 3 < len(hinted) < 2 * MANY // 3
    for plan in plans:
        resets = [fault for fault in plan.faults if fault.kind == "connection_reset"]
        assert not resets or plan.hints is not None
    assert {plan.hints.unanswered > 0 for plan in hinted} == {True, False}
    assert {plan.hints.late > 0 for plan in hinted} == {True, False}


def test_a_plan_without_a_field_is_refused_by_its_name():
    document = to_json(draw_plan(1))
    del document["brokers"]
    with pytest.raises(ValueError, match="plan without brokers"):
        from_json(document)


def test_every_kind_of_fault_and_every_aim_appears(plans):
    kinds = Counter(fault.kind for plan in plans for fault in plan.faults)
    byte_kinds = Counter(
        f.kind for seed in range(300) for f in draw_plan(seed, depth="byte").faults
    )
    aims = {fault.aim for plan in plans for fault in plan.faults}
    assert set(kinds) == set(KINDS) - set(KINDS_OF_BYTES)
    assert set(byte_kinds) == set(KINDS)
    assert aims == {"", *AIMS}


def test_every_schedule_is_in_order_of_time_and_ends_with_the_chaos(plans):
    for plan in plans:
        times = [fault.at_ms for fault in plan.faults]
        assert times == sorted(times)
        assert all(plan.phases.calm_ms <= at_ms < plan.duration_ms for at_ms in times)


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_leaves_ordinary_faults_in_the_schedule(name):
    for seed in range(200):
        plan = draw_plan(seed, focus=(name,))
        for fault in plan.faults:
            assert fault.kind in KINDS
            assert fault.aim in ("", *AIMS)
            assert all(1 <= node <= plan.brokers for node in fault.nodes)
            assert fault.topic < len(plan.topics)
            assert fault.partition < plan.every_topic[fault.topic].partitions


def test_knobs_reach_their_extremes(plans):
    def values(pick):
        return {pick(plan) for plan in plans}

    assert values(lambda p: p.brokers) == {1, 2, 3, 4, 5}
    assert values(lambda p: p.voters) == {1, 3, 5}
    assert {t.replication_factor for p in plans for t in p.topics} == {1, 2, 3, 4, 5}
    assert {1, 2, 3} <= {t.min_insync_replicas for p in plans for t in p.topics}
    assert values(lambda p: p.elr) == {True, False}
    assert values(lambda p: p.durability) == {"fsync", "page-cache"}
    assert values(lambda p: p.network.ordered) == {True, False}
    assert min(values(lambda p: p.network.loss)) == 0
    assert max(values(lambda p: p.network.loss)) > 500
    assert min(values(lambda p: p.fetch_max_batches)) == 1
    assert {p.acks for plan in plans for p in plan.producers} == {-1, 0, 1}
    assert {c.rate_ppm for p in plans for c in p.clocks} == {950_000, 1_000_000, 1_050_000}
    assert any(topic.unclean for plan in plans for topic in plan.topics)
    assert any(consumer.from_follower for plan in plans for consumer in plan.consumers)


def test_seeds_differ_in_which_faults_are_switched_on(plans):
    subsets = {frozenset(fault.kind for fault in plan.faults) for plan in plans}
    assert len(subsets) > MANY // 4
    assert any(len(subset) == 1 for subset in subsets)


def test_every_plan_makes_sense(plans):
    for plan in plans:
        assert plan.voters <= plan.brokers
        assert len(plan.clocks) == plan.brokers
        assert len(plan.racks) in (0, plan.brokers)
        assert plan.producers
        assert plan.consumers
        for topic in plan.topics:
            assert 1 <= topic.min_insync_replicas <= topic.replication_factor <= plan.brokers
        for producer in plan.producers:
            assert producer.partitions
            assert max(producer.partitions) < plan.topics[producer.topic].partitions
            assert not producer.idempotent or producer.acks == -1


def test_every_fault_falls_on_what_there_is_and_in_the_phase_of_chaos(plans):
    for plan in plans:
        times = [fault.at_ms for fault in plan.faults]
        assert times == sorted(times)
        for fault in plan.faults:
            assert plan.phases.calm_ms < fault.at_ms < plan.duration_ms
            assert all(1 <= node <= plan.brokers for node in fault.nodes)
            assert len(set(fault.nodes)) == len(fault.nodes)
            assert fault.partition < plan.every_topic[fault.topic].partitions
            if fault.kind == "split":
                assert 0 < len(fault.nodes) < plan.brokers


def test_leases_are_longer_than_a_few_round_trips(plans):
    for plan in plans:
        round_trip_ms = 2 * plan.network.delay_us_mean / 1000
        assert plan.timings.session_timeout_ms >= 5 * round_trip_ms
        assert plan.timings.election_timeout_ms >= 4 * round_trip_ms
        assert plan.timings.heartbeat_interval_ms < plan.timings.session_timeout_ms
        assert plan.timings.quorum_fetch_wait_ms < plan.timings.quorum_fetch_timeout_ms


def test_both_depths_run_the_same_plan_but_for_damage_to_bytes():
    for seed in range(50):
        objects, octets = draw_plan(seed), draw_plan(seed, depth="byte")
        kept = tuple(fault for fault in octets.faults if fault.kind not in KINDS_OF_BYTES)
        assert kept == objects.faults
        assert octets.producers == objects.producers
        assert octets.timings == objects.timings


def test_the_headline_says_what_was_drawn():
    plan = draw_plan(4711)
    headline = plan.headline()
    assert headline.startswith("seed 4711 · ")
    assert f"{plan.brokers} broker" in headline
    assert plan.durability in headline
