"""A focus of a whole-node plan: it names kinds of faults, plots and kinds of clients."""

from tidelog.sim.nodes.plan import draw_node_plan

A_MINUTE_MS = 60_000


def test_a_focus_leaves_out_what_it_does_not_name():
    for seed in range(20):
        plan = draw_node_plan(seed, ("kill", "groups"))
        assert {fault.kind for fault in plan.faults} == {"kill"}
        assert plan.clients.groups
        assert not plan.clients.transactional
        assert not plan.clients.processors


def test_a_lonely_node_waits_for_more_than_a_minute_for_most_voters():
    for seed in range(20):
        plan = draw_node_plan(seed, ("lonely_node", "writers"))
        long = {fault.node for fault in plan.faults if fault.lasts_ms > A_MINUTE_MS}
        voters = set(plan.cluster.voter_ids)
        assert 2 * len(voters - long) <= len(voters) or len(voters) == 1
        assert plan.phases.duration_ms >= max(each.at_ms + each.lasts_ms for each in plan.faults)


def test_plots_are_ordinary_faults_in_the_order_of_their_times():
    plan = draw_node_plan(3, ("late_join", "slow_failover", "late_proposal"))
    assert list(plan.faults) == sorted(plan.faults)
    assert plan == draw_node_plan(3, ("late_join", "slow_failover", "late_proposal"))
