"""Controllers that die: processes of their own beside two brokers, and nodes that are both."""

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from support import live
from support.live import in_sync, numbered
from tidelog.client import Admin
from tidelog.testing import Cluster


@pytest.fixture(scope="module")
def separated():
    shape = {"brokers": 2, "controllers": 3, "separate": True}
    with Cluster(**shape, config={"min.insync.replicas": 1}) as cluster:
        yield cluster


@pytest.fixture
def cluster(separated):
    yield separated
    live.mend(separated)


def quorum(cluster):
    return cluster.ask(lambda client: Admin(client).quorum())


def test_the_roles_of_brokers_and_controllers_can_be_processes_of_their_own(cluster):
    """KRaft: a quorum of controllers, and brokers that observe the metadata log."""
    seen = quorum(cluster)
    assert sorted(each.id for each in seen.voters) == cluster.controllers == [101, 102, 103]
    assert sorted(each.id for each in seen.observers) == cluster.brokers == [1, 2]
    assert cluster.alive() == [1, 2]
    assert cluster.state(1)["controller"] is None
    assert [cluster.state(each)["roles"] for each in (1, 101)] == [["broker"], ["controller"]]
    active = [each for each in cluster.controllers if cluster.state(each)["controller"]["active"]]
    assert active == [seen.leader]


def test_brokers_serve_on_while_the_active_controller_dies_and_another_one_takes_over(cluster):
    """KRaft: any controller can take over, because all of them have the metadata."""
    topic = cluster.topic("orders", replication_factor=2)
    before = quorum(cluster)
    writer = live.Writer(cluster, topic, acks="all")
    writer.write(*numbered("order", 100))
    cluster.kill(before.leader)
    writer.write(*numbered("order", 100, 100))
    writer.flush()
    assert writer.errors == []
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic("later", 1, 2)])["later"].result(live.GUARD_S)

    after = quorum(cluster)
    assert after.leader in set(cluster.controllers) - {before.leader}
    assert after.leader_epoch > before.leader_epoch
    assert f"node {after.leader} is the active controller" in cluster.log(after.leader)
    assert cluster.partition(topic, 0).leader_epoch == 0
    assert live.read(cluster, topic) == numbered("order", 200)

    cluster.restart(before.leader)
    cluster.wait(lambda: voter_end(cluster, before.leader) >= after.high_watermark)


def voter_end(cluster, controller):
    """How far a controller has come, as the active one knows."""
    return next(each.log_end_offset for each in quorum(cluster).voters if each.id == controller)


def test_a_dead_leader_is_replaced_by_a_controller_that_took_over_a_moment_ago(cluster):
    """Leader election in KRaft: what one controller decided, the next one goes on from."""
    topic = cluster.topic("both", assignment=[[1, 2]])
    live.write(cluster, topic, numbered("early", 5), acks="all")
    before = quorum(cluster).leader
    cluster.kill(before)
    cluster.kill(1)
    cluster.wait(lambda: cluster.partition(topic, 0).leader == 2)
    live.write(cluster, topic, numbered("late", 5), acks="all")
    assert live.read(cluster, topic) == [*numbered("early", 5), *numbered("late", 5)]
    cluster.restart(1)
    cluster.wait(lambda: in_sync(cluster, topic, [1, 2]))


def test_metadata_needs_a_majority_of_the_controllers_and_records_do_not(cluster):
    """Quorum writes: two of three controllers, which is not how records are replicated."""
    topic = cluster.topic("records", replication_factor=2)
    active = quorum(cluster).leader
    others = [each for each in cluster.controllers if each != active]
    for controller in others:
        cluster.kill(controller)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    patience = {"request_timeout": live.GUARD_S, "operation_timeout": live.GUARD_S}
    asked = admin.create_topics([NewTopic("waits", 1, 2)], **patience)["waits"]
    live.write(cluster, topic, numbered("order", 5), acks="all")
    assert live.read(cluster, topic) == numbered("order", 5)
    assert not asked.done()

    cluster.restart(others[0])
    asked.result(live.GUARD_S)
    cluster.wait(lambda: cluster.partition("waits", 0).leader is not None)


def test_a_node_that_is_active_controller_and_leader_at_once_is_replaced_as_both():
    """Handling leader failure, with combined roles."""
    with Cluster(brokers=3) as cluster:
        active = quorum(cluster).leader
        others = [each for each in cluster.brokers if each != active]
        topic = cluster.topic("orders", assignment=[[active, *others]])
        writer = live.Writer(cluster, topic, acks="all", enable_idempotence=True)
        writer.write(*numbered("order", 100))
        writer.await_acknowledged(10)
        cluster.kill(active)
        writer.write(*numbered("order", 100, 100))
        writer.flush()
        assert writer.errors == []
        assert quorum(cluster).leader in others
        assert cluster.partition(topic, 0).leader in others
        assert live.read(cluster, topic) == numbered("order", 200)
