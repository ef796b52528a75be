"""Simulated nodes can say how they are, whatever happens to them."""

import pytest

from tidelog.core.events import RecordsAppended
from tidelog.host.gate import GatedNetwork
from tidelog.node.view import LiveNode
from tidelog.observe.event_topic import EVENTS_TOPIC
from tidelog.sim.nodes import rules
from tidelog.sim.nodes.plan import draw_node_plan
from tidelog.sim.nodes.run import NodeRun, run_node_seed


def test_a_question_of_an_operator_that_fails_breaks_a_rule(monkeypatch):
    def health(_view):
        raise LookupError("nobody knows how this node is")

    monkeypatch.setattr(LiveNode, "health", health)
    result = run_node_seed(0)
    assert result.rule == rules.FAILED
    assert "nobody knows how this node is" in result.violations[0].text


def test_nodes_that_write_their_events_into_a_topic_become_whole_too():
    plan = draw_node_plan(1)
    settings = (*plan.cluster.settings, ("tidelog.events.topic.enable", "true"))
    run = NodeRun(plan._replace(cluster=plan.cluster._replace(settings=settings)))
    written: list[str] = []
    on_event = run._on_event

    def listen(node_id, event):
        if isinstance(event, RecordsAppended):
            node = run.cluster.servers[node_id].node
            written.append(node.topic_name(event.partition.topic_id))
        on_event(node_id, event)

    run._on_event = listen
    assert run.execute().violations == ()
    assert EVENTS_TOPIC in written


def test_an_operator_asks_over_http_and_breaks_the_node_for_a_moment():
    plan = draw_node_plan(0)
    wanted = (("tidelog.chaos.enable", "true"), ("tidelog.http.listener", "localhost:8080"))
    settings = (*plan.cluster.settings, *wanted)
    run = NodeRun(plan._replace(cluster=plan.cluster._replace(settings=settings)))
    blocked: list[int] = []
    set_gates = GatedNetwork.set

    def listen(gate, faults):
        blocked.extend(faults.blocked)
        set_gates(gate, faults)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GatedNetwork, "set", listen)
        assert run.execute().violations == ()
    assert blocked


def test_a_cluster_in_which_everybody_logs_in_becomes_whole_too():
    plan = draw_node_plan(0, focus=("kill", "inspectors"))
    run = NodeRun(plan._replace(cluster=plan.cluster._replace(secured=True)))
    assert run.execute().violations == ()
    done = run.workload.history.done
    assert sum(count for what, count in done.items() if what.startswith("api ")) > 10
