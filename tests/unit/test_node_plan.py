"""Plans of whole-node runs: drawn from streams of their own, configurations that nodes accept, and
files that can be read back or say why not."""

import json

import pytest

from tidelog.sim import plan_json
from tidelog.sim.nodes import cluster_plan, replay_file
from tidelog.sim.nodes.cluster import node_config
from tidelog.sim.nodes.cluster_plan import DURABILITY, KNOBS, USUAL, ClusterPlan
from tidelog.sim.nodes.fault_kinds import CRASH_IN_START, KINDS
from tidelog.sim.nodes.plan import DAMAGE_NEEDS, NodePlan, draw_node_plan
from tidelog.sim.results import SeedResult, Violation

PLAN = draw_node_plan(7)


def result_of(plan, *violations):
    return SeedResult(plan.seed, 9, 9, 0, 0, 0, 0, 0, violations, {}, {}, {}, digest="abc")


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name in KNOBS for value in KNOBS[name] if value != USUAL]
)
def test_every_value_of_a_knob_makes_sense_beside_the_usual_ones(name, value):
    node_config(1, ClusterPlan(3, 3, settings=((name, value),)))


def test_every_node_of_a_drawn_cluster_accepts_its_configuration():
    clusters = [draw_node_plan(seed).cluster for seed in range(100)]
    for cluster in clusters:
        for node_id in range(1, cluster.nodes + 1):
            assert node_config(node_id, cluster).node_id == node_id
    assert {cluster.brokers for cluster in clusters} == {1, 2, 3, 4, 5}
    assert {cluster.separate for cluster in clusters} == {True, False}
    assert {cluster.voters for cluster in clusters} == {1, 3, 5}


def test_one_more_knob_changes_nothing_else_in_a_seed(monkeypatch):
    before = [draw_node_plan(seed) for seed in range(20)]
    monkeypatch.setitem(cluster_plan.KNOBS, "num.partitions", ("2", "3"))
    for plan, after in zip(before, map(draw_node_plan, range(20)), strict=True):
        kept = tuple(each for each in after.cluster.settings if each[0] != "num.partitions")
        assert after._replace(cluster=after.cluster._replace(settings=kept)) == plan


def test_faults_of_a_focus_change_nothing_else_in_a_seed():
    focused = draw_node_plan(7, ("kill",))
    assert {fault.kind for fault in focused.faults} == {"kill"}
    cluster = focused.cluster._replace(settings=PLAN.cluster.settings)
    assert (cluster, focused.topics, focused.clients) == (PLAN.cluster, PLAN.topics, PLAN.clients)
    known = dict(focused.cluster.settings) | {DURABILITY: "page-cache"}
    for fault in PLAN.faults:
        known |= DAMAGE_NEEDS.get(fault.kind, {})
    assert dict(PLAN.cluster.settings).items() <= known.items()


def relies_on_page_caches(plan):
    return dict(plan.cluster.settings).get(DURABILITY) == "page-cache"


def test_page_caches_are_relied_on_only_where_no_machine_crashes():
    relying = [plan for plan in map(draw_node_plan, range(200)) if relies_on_page_caches(plan)]
    assert len(relying) > 5
    faults = [fault for plan in relying for fault in plan.faults]
    assert "kill" in {fault.kind for fault in faults}
    assert not [fault for fault in faults if fault.loses_unsynced]


@pytest.mark.parametrize(("amount", "relied_on"), [(6, True), (7, False)])
def test_page_caches_are_relied_on_before_a_crash_in_a_start_unless_power_fails(
    monkeypatch, amount, relied_on
):
    """Seed 965: a leader alone in the ISR lost committed records with its page cache."""
    crash = KINDS[CRASH_IN_START]._replace(amounts=(amount,))
    monkeypatch.setitem(KINDS, CRASH_IN_START, crash)
    monkeypatch.setitem(KNOBS, DURABILITY, ("page-cache",))
    plan = draw_node_plan(965, (CRASH_IN_START,))
    assert {(fault.kind, fault.amount) for fault in plan.faults} == {(CRASH_IN_START, amount)}
    assert relies_on_page_caches(plan) is relied_on


@pytest.mark.parametrize("seed", range(30))
def test_a_plan_that_went_through_json_is_the_same(seed):
    plan = draw_node_plan(seed)
    assert plan_json.from_json(NodePlan, json.loads(json.dumps(plan_json.to_json(plan)))) == plan


def broken(change):
    document = plan_json.to_json(PLAN)
    change(document)
    with pytest.raises(ValueError, match="plan") as caught:
        plan_json.from_json(NodePlan, document)
    return str(caught.value)


def test_a_plan_with_a_wrong_shape_says_what_is_wrong_and_where():
    assert broken(lambda plan: plan.pop("topics")) == "plan has no topics"
    assert broken(lambda plan: plan.update(more=1)) == "plan has an unknown more"
    assert broken(lambda plan: plan["cluster"].update(brokers="3")) == (
        "plan.cluster.brokers is '3', which is not of type int"
    )
    assert broken(lambda plan: plan["faults"][2].update(at_ms=None)) == (
        "plan.faults[2].at_ms is None, which is not of type int"
    )
    assert broken(lambda plan: plan.update(topics=3)) == "plan.topics is 3, which is not a list"
    assert broken(lambda plan: plan.update(cluster=[])) == (
        "plan.cluster is [], which is not an object"
    )


def test_a_field_with_a_default_may_be_missing_in_an_older_file():
    document = plan_json.to_json(PLAN._replace(cluster=ClusterPlan(3, 3)))
    del document["cluster"]["sync_us"]
    assert plan_json.from_json(NodePlan, document).cluster == ClusterPlan(3, 3)


def test_a_replay_file_keeps_the_plan_and_what_it_broke(tmp_path):
    path = tmp_path / "found.json"
    violation = Violation("N1 a rule", 4711, "what was seen")
    replay_file.write(path, PLAN, result_of(PLAN, violation), mutant="M1")
    replay = replay_file.read(path)
    assert (replay.plan, replay.violation, replay.mutant) == (PLAN, violation, "M1")
    assert replay.digest == "abc"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON"),
        ("[]", "it holds no plan"),
        ('{"plan": {"format": 1, "seed": 3, "depth": "object"}}', "before whole-node runs"),
        ('{"format": 3, "plan": {}}', "it has format 3, and this version reads format 2"),
        ('{"format": 2, "plan": {"seed": 3}}', "plan has no cluster, no topics"),
    ],
)
def test_a_file_that_is_no_replay_says_why(tmp_path, text, why):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(replay_file.ReplayFileError, match=why):
        replay_file.read(path)


def test_damage_that_is_drawn_can_be_done():
    for seed in range(10):
        plan = draw_node_plan(seed, ("wipe", "bit_flip"))
        settings = dict(plan.cluster.settings)
        kinds = {fault.kind for fault in plan.faults}
        assert (settings.get("metadata.log.dir") == "/metadata") >= ("wipe" in kinds)
        if "bit_flip" in kinds:
            assert settings["log.flush.offset.checkpoint.interval.ms"] == "100"
