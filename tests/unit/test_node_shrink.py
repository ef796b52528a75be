"""Shrinking without running anything: what is proposed can be run, and what is needed stays."""

import pytest

from tidelog.sim.nodes import smaller_plans as smaller
from tidelog.sim.nodes.cluster import node_config
from tidelog.sim.nodes.cluster_plan import ClusterPlan
from tidelog.sim.nodes.fault_kinds import ALL_NODES, BETWEEN_TWO, NodeFault
from tidelog.sim.nodes.plan import draw_node_plan
from tidelog.sim.nodes.shrink import SMALL_INTERNAL_TOPICS, shrink

RULE = "N1 a rule"
PLANS = [draw_node_plan(seed) for seed in range(40)]


def fits(plan):
    """Whether it could be run: nobody is named who is not there."""
    cluster = plan.cluster
    assert cluster.brokers >= 1
    assert cluster.voters >= 1
    assert len(cluster.clocks) in (0, cluster.nodes)
    assert len(cluster.racks) in (0, cluster.brokers)
    for node_id in range(1, cluster.nodes + 1):
        node_config(node_id, cluster)
    for topic in plan.topics:
        assert topic.partitions >= 1
        assert topic.replication_factor <= cluster.brokers
    for fault in plan.faults:
        assert fault.node in (ALL_NODES, *range(1, cluster.nodes + 1))
        assert 1 <= fault.other <= cluster.nodes
        assert fault.kind not in BETWEEN_TWO or fault.node != fault.other
    return True


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"seed {plan.seed}")
def test_plans_without_a_node_can_be_run(plan):
    while plan.cluster.nodes > 1:
        candidates = [smaller.without_node(plan, n) for n in range(1, plan.cluster.nodes + 1)]
        left = [each for each in candidates if each is not None]
        assert all(fits(each) for each in left)
        if not left:
            break
        plan = left[plan.seed % len(left)]
    assert fits(smaller.with_one_role_each(plan))


def test_faults_of_a_node_go_with_it_and_others_are_renumbered():
    faults = (
        NodeFault(5_000, "kill", 2, 1, 100),
        NodeFault(6_000, "cut", 1, 2, 100),
        NodeFault(7_000, "cut", 3, 1, 100),
        NodeFault(8_000, "power_loss", ALL_NODES, 2, 100),
    )
    plan = PLANS[0]._replace(cluster=ClusterPlan(3, 3), faults=faults)
    left = smaller.without_node(plan, 2)
    assert left is not None
    assert [(fault.kind, fault.node) for fault in left.faults] == [
        ("cut", 2),
        ("power_loss", ALL_NODES),
    ]
    assert fits(left)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_needed_is_all_that_stays(seed):
    plan = draw_node_plan(seed, ("kill", "pause", "cut"))
    needed = plan.faults[len(plan.faults) // 2].kind

    def fails(candidate):
        fits(candidate)
        kinds = [fault.kind for fault in candidate.faults]
        return RULE if needed in kinds and candidate.cluster.brokers >= 2 else None

    shrunk = shrink(plan, RULE, fails)
    assert [fault.kind for fault in shrunk.plan.faults] == [needed]
    smallest = ClusterPlan(2, 1, settings=SMALL_INTERNAL_TOPICS)
    assert shrunk.plan.cluster._replace(separate=False) == smallest
    assert [topic.partitions for topic in shrunk.plan.topics] == [1]
    assert shrunk.plan.phases.duration_ms < plan.phases.duration_ms


def test_another_rule_does_not_count():
    plan = PLANS[3]
    shrunk = shrink(plan, RULE, lambda candidate: "N2 another rule", tries_max=50)
    assert shrunk.plan == plan
    assert shrunk.tries == 50


def test_time_that_is_over_ends_the_search():
    shrunk = shrink(PLANS[3], RULE, lambda candidate: RULE, expired=lambda: True)
    assert (shrunk.plan, shrunk.tries) == (PLANS[3], 0)
