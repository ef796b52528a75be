"""The clients of whole-node runs: every kind comes to its end, and none is there for show."""

import asyncio

import pytest

from tidelog.sim.kernel import Kernel
from tidelog.sim.nodes.client_plan import (
    CHURN,
    CLASSIC,
    CONSUMER,
    HOSTILE,
    OWN_ASSIGNMENT,
    ChurnPlan,
    ClientPlan,
    GroupPlan,
    HostilePlan,
    LatePlan,
    ProcessorPlan,
    TransactionalPlan,
    WriterPlan,
    draw_client_plan,
)
from tidelog.sim.nodes.clients.access_churn import ACCESS_TASKS
from tidelog.sim.nodes.clients.group_keeper import TASKS
from tidelog.sim.nodes.clients.history import ABORTED, ASKED, COMMITTED, OPEN
from tidelog.sim.nodes.clients.late_writer import GAP, LATE_BATCH, LATE_END, REPEATED_END
from tidelog.sim.nodes.clients.liveness import Finisher
from tidelog.sim.nodes.clients.sensible import SPARE
from tidelog.sim.nodes.clients.stage import INPUTS, INPUTS_WRITER, Stage
from tidelog.sim.nodes.cluster import NodeCluster
from tidelog.sim.nodes.cluster_plan import RACKS
from tidelog.sim.nodes.plan import draw_node_plan
from tidelog.sim.nodes.run import NodeRun, run_node_seed

MISCHIEVOUS = ClientPlan(
    writers=(WriterPlan(1, False, 5, 1, 50), WriterPlan(0, False, 5, 4, 50)),
    transactional=(TransactionalPlan(1_000, 2, 0, 20, 30),) * 2,
    groups=(GroupPlan(CLASSIC, 2, 2_500, 1, 8), GroupPlan(CONSUMER, 2, 4_000, 3, 8)),
    processors=(ProcessorPlan(CLASSIC, 2, 2_500, 1_000, 15),),
    committed_readers=1,
    plain_readers=1,
    transfers_partitions=2,
    inputs_partitions=2,
    outputs_partitions=2,
    inputs_pause_ms=50,
)


@pytest.mark.parametrize("protocol", [CLASSIC, CONSUMER, OWN_ASSIGNMENT])
def test_clients_that_vanish_and_dawdle_harm_nobody_and_all_come_to_their_end(protocol):
    processor = MISCHIEVOUS.processors[0]._replace(
        protocol=protocol, instances=1 if protocol == OWN_ASSIGNMENT else 2
    )
    plan = draw_node_plan(2)._replace(clients=MISCHIEVOUS._replace(processors=(processor,)))
    run = NodeRun(plan)
    assert run.execute().violations == ()
    history = run.workload.history
    outcomes = {each.outcome for each in history.transactions}
    assert {COMMITTED, ABORTED} <= outcomes
    assert outcomes & {OPEN, ASKED}, "nobody vanished or was late"
    for group in history.groups.values():
        assert sum(group.ended_at.values()) > 20, group.name
        assert len(group.began) > 2, group.name
    outputs = [value for value in history.found if b"@" in value]
    assert len(outputs) == sum(history.groups["p0"].ended_at.values())
    assert all(sum(map(len, reader.reads.values())) > 100 for reader in history.readers)


def test_groups_have_not_read_everything_while_the_writer_of_inputs_is_at_work():
    """What it writes last may be committed late: a group that had read the rest was told to go,
    and had committed more by then than was noted of it."""
    plan = draw_node_plan(6)
    cluster = NodeCluster(Kernel(plan.seed), plan.seed, plan.cluster)
    stage = Stage(cluster, plan.seed, {INPUTS: 1}, lambda text, error: pytest.fail(text))
    finisher = Finisher(stage, {})
    last_write_s = 3

    async def write_slowly(_process):
        await asyncio.sleep(last_write_s)

    stage.start(INPUTS_WRITER, write_slowly)
    stage.start("finisher", finisher.run)
    cluster.kernel.run(last_write_s * 1_000_000 - 1, 10_000)
    assert finisher.missing == "client i0 has not come to its end"
    assert not stage.drained
    cluster.kernel.run((last_write_s + 1) * 1_000_000, 10_000)
    assert finisher.missing is None
    assert stage.drained
    cluster.bury()


CALM = draw_node_plan(6)._replace(
    faults=(),
    clients=draw_client_plan(6)._replace(churn=(), hostile=(), inspectors_pause_ms=(), late=()),
)
"""Two writers, and nothing that breaks."""


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({"hostile": (HostilePlan(HOSTILE, 100),) * 4}, HOSTILE),
        ({"churn": (ChurnPlan(CHURN, 300),)}, CHURN),
    ],
    ids=["hostile peers", "churn"],
)
def test_writers_do_not_suffer_from(others, expected):
    run = NodeRun(CALM._replace(clients=CALM.clients._replace(**others)))
    result = run.execute()
    assert result.violations == ()
    assert result.acknowledged > 500
    assert result.refused == 0
    assert set(run.workload.history.done) == set(expected)


def test_an_inspector_is_answered_whatever_it_asks():
    clients = CALM.clients._replace(inspectors_pause_ms=(20, 20, 20))
    run = NodeRun(CALM._replace(clients=clients))
    result = run.execute()
    assert result.violations == ()
    assert result.refused == 0
    assert len(run.workload.history.done) > 40
    assert run.workload.history.done["spare broker"] >= 1
    assert SPARE not in run.judging.view.image.brokers, "new partitions would get replicas there"


def test_what_producers_say_too_late_is_refused_in_both_versions_of_transactions():
    late = tuple(LatePlan(each, TransactionalPlan(8_000, 2, 0, 5, 50), 20) for each in (1, 2))
    run = NodeRun(CALM._replace(clients=CALM.clients._replace(late=late)))
    result = run.execute()
    assert result.violations == ()
    assert result.refused == 0
    assert set(run.workload.history.done) == {GAP, LATE_BATCH, LATE_END, REPEATED_END}
    assert result.marks["late_batch_refused"] > 0
    assert result.marks["end_txn_refused_old_epoch"] > 0
    assert result.marks["produce_out_of_order"] > 0


def test_readers_are_served_by_followers_in_their_rack():
    """Most partitions have their leader in another rack, and a follower in this one."""
    cluster = CALM.cluster._replace(racks=(*RACKS, RACKS[0])).serving_racks()
    clients = CALM.clients._replace(rack_readers=RACKS[:2])
    topics = tuple(topic._replace(replication_factor=3) for topic in CALM.topics)
    run = NodeRun(CALM._replace(cluster=cluster, clients=clients, topics=topics))
    result = run.execute()
    assert result.violations == ()
    assert result.marks["consumer_served_by_follower"] > 100
    readers = [each for each in run.workload.history.readers if each.name.startswith("k")]
    assert len(readers) == 2
    for reader in readers:
        assert sum(map(len, reader.reads.values())) > result.acknowledged // 2


def test_offsets_and_groups_are_deleted_and_made_anew():
    run = NodeRun(CALM._replace(clients=CALM.clients._replace(keepers_pause_ms=(50, 50))))
    result = run.execute()
    assert result.violations == ()
    done = run.workload.history.done
    assert done.keys() == set(TASKS)
    assert min(done.values()) > 10


def test_users_rules_and_quotas_come_and_go_and_are_judged():
    clients = CALM.clients._replace(access_pause_ms=(50,))
    run = NodeRun(CALM._replace(cluster=CALM.cluster.guarded(), clients=clients))
    result = run.execute()
    assert result.violations == ()
    assert run.workload.history.done.keys() == set(ACCESS_TASKS)


def test_what_an_unclean_election_loses_is_forfeited_and_nothing_else_is():
    result = run_node_seed(1, focus=("gamble", "gambles", "readers"))
    assert result.violations == ()
    assert result.lost == 0
    assert result.forfeited > 0
    assert result.marks["unclean_election"] > 0
    assert result.marks["latest_went_back"] > 0


def test_seeds_together_have_every_kind_of_client():
    plans = [draw_client_plan(seed) for seed in range(60)]
    assert {writer.acks for plan in plans for writer in plan.writers} == {-1, 0, 1}
    assert {group.protocol for plan in plans for group in plan.groups} == {CLASSIC, CONSUMER}
    processors = {each.protocol for plan in plans for each in plan.processors}
    assert processors == {CLASSIC, CONSUMER, OWN_ASSIGNMENT}
    assert any(plan.transactional for plan in plans)
    assert {kind for plan in plans for each in plan.churn for kind in each.kinds} == set(CHURN)
    assert {kind for plan in plans for each in plan.hostile for kind in each.kinds} == set(HOSTILE)
    assert any(plan.inspectors_pause_ms for plan in plans)
    assert {each.version for plan in plans for each in plan.late} == {1, 2}
    assert any(plan.keepers_pause_ms for plan in plans)
    assert any(plan.access_pause_ms for plan in plans)
    assert any(plan.rack_readers for plan in plans)
    assert {each.automatic for plan in plans for each in plan.gambles} == {True, False}
    assert any(not (plan.transactional or plan.has_inputs) for plan in plans)
