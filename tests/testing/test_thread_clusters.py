"""Clusters on threads of the test's own process: the same nodes, without a process and a disk."""

import asyncio
import gc
import threading
import warnings

import pytest
from confluent_kafka import Consumer, Producer

from support.batches import batch
from tidelog.cluster.nodes import NodeFailed
from tidelog.testing import Cluster, InvariantBroken, node_thread

GUARD_S = 60


def produce(cluster, topic, values, **settings):
    delivered = []

    def on_delivery(error, message):
        delivered.append(message.offset() if error is None else error.name())

    servers = {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0}
    producer = Producer({**servers, **settings})
    for value in values:
        producer.produce(topic, value, on_delivery=on_delivery)
    assert producer.flush(GUARD_S) == 0
    return delivered


def values_of(cluster, topic):
    return [read.record.value for read in cluster.records(topic)]


def leader_of(cluster, topic):
    return cluster.partition(topic).leader


def wait_for_another_leader(cluster, topic, old):
    cluster.wait(lambda: leader_of(cluster, topic) not in (None, old), GUARD_S)


def wait_in_sync(cluster, topic, count=3):
    cluster.wait(lambda: len(cluster.partition(topic).isr) == count, GUARD_S)


@pytest.fixture(scope="module")
def cluster():
    """Every story leaves it whole."""
    with Cluster(brokers=3, host="thread") as running:
        yield running


def threads_of_ours():
    return {each for each in threading.enumerate() if each.name.startswith("tidelog.")}


def test_one_broker_serves_clients_and_leaves_no_thread_behind():
    before = threads_of_ours()
    with Cluster(brokers=1, host="thread") as cluster:
        topic = cluster.topic("orders")
        assert produce(cluster, topic, [b"a", b"b"]) == [0, 1]
        assert values_of(cluster, topic) == [b"a", b"b"]
        cluster.check()
        with pytest.raises(ValueError, match="memory"):
            cluster.data_dir(1)
    assert threads_of_ours() == before


def test_a_killed_leader_is_replaced_and_comes_back(cluster):
    topic = cluster.topic("failover", replication_factor=3)
    assert produce(cluster, topic, [b"a"]) == [0]
    old = leader_of(cluster, topic)
    cluster.kill(old)
    assert old not in cluster.running()
    wait_for_another_leader(cluster, topic, old)
    cluster.wait(lambda: cluster.events.saw("BrokerFenced", "IsrChanged", "LeaderElected"), GUARD_S)
    assert cluster.events.saw(f"(was {old}) elected")
    assert not cluster.events.saw("LeaderElected", "no node ever says this")
    assert produce(cluster, topic, [b"b"]) == [1]
    cluster.restart(old)
    wait_in_sync(cluster, topic)
    assert cluster.logs(topic)[old]["log_end_offset"] == 2
    assert values_of(cluster, topic) == [b"a", b"b"]
    cluster.check()


def test_a_crash_of_all_loses_nothing_that_was_acknowledged_and_all_that_was_not_synced(cluster):
    topic = cluster.topic("crash", replication_factor=3)
    assert produce(cluster, topic, [b"%d" % number for number in range(50)])[-1] == 49
    for node in cluster.brokers:
        cluster.kill(node)
    assert cluster.running() == []
    cluster.start(*cluster.brokers)
    cluster.wait_ready()
    cluster.wait(lambda: leader_of(cluster, topic) is not None, GUARD_S)
    assert len(values_of(cluster, topic)) == 50
    wait_in_sync(cluster, topic)
    cluster.check()


def test_what_a_leader_has_not_synced_is_gone_after_its_crash():
    """`page-cache` acknowledges before anything is synced: a lone broker loses it all."""
    config = {"ack.durability": "page-cache", "log.flush.interval.messages": 1_000_000}
    with Cluster(brokers=1, host="thread", config=config) as cluster:
        topic = cluster.topic("risky")
        assert produce(cluster, topic, [b"a", b"b"]) == [0, 1]
        cluster.kill(1)
        cluster.restart(1)
        assert values_of(cluster, topic) == []
        assert cluster.events.saw("elected uncleanly, records may be lost")
        cluster.check()  # it was told that records may be lost, and said so


def test_a_paused_broker_stands_still_and_goes_on(cluster):
    topic = cluster.topic("paused", replication_factor=3)
    old = leader_of(cluster, topic)
    cluster.pause(old)
    assert cluster.state(old) == {}
    wait_for_another_leader(cluster, topic, old)
    assert produce(cluster, topic, [b"a"]) == [0]
    cluster.resume(old)
    cluster.wait(lambda: cluster.replica(old, topic).get("role") == "follower", GUARD_S)
    wait_in_sync(cluster, topic)
    cluster.check()


def test_a_paused_broker_can_be_killed(cluster):
    topic = cluster.topic("paused-and-killed", replication_factor=3)
    cluster.pause(3)
    cluster.kill(3)
    assert 3 not in cluster.running()
    cluster.restart(3)
    wait_in_sync(cluster, topic)


def test_a_broker_that_is_cut_off_loses_its_leadership_until_it_is_healed(cluster):
    topic = cluster.topic("cut", replication_factor=3)
    old = leader_of(cluster, topic)
    cluster.partition_off([old])
    assert f"{old}     running" in cluster.state_table()
    wait_for_another_leader(cluster, topic, old)
    cluster.heal()
    wait_in_sync(cluster, topic)
    cluster.slow(old, 30)
    assert produce(cluster, topic, [b"a"]) == [0]
    cluster.heal()
    cluster.check()


def test_a_broker_stops_in_order_and_hands_its_leadership_over(cluster):
    topic = cluster.topic("stopped", replication_factor=3)
    old = leader_of(cluster, topic)
    cluster.stop(old)
    wait_for_another_leader(cluster, topic, old)
    assert cluster.events.saw(f"broker {old} is shutting down")
    cluster.restart(old)
    wait_in_sync(cluster, topic)


def on_loop(cluster, node, work):
    """Whatever a test of ours must do to a node that no user can."""
    return cluster._nodes.thread(node).look(work, GUARD_S)


def log_of(node, topic):
    return node.broker.replicas.named(topic, 0).log


def test_a_replica_that_has_other_records_than_its_leader_is_found():
    def replace(node):
        log_of(node, topic).truncate_to(0)
        log_of(node, topic).append_as_follower([batch(b"another", epoch=0)])

    with Cluster(brokers=2, host="thread") as cluster:
        topic = cluster.topic("orders", assignment=[[1, 2]])
        produce(cluster, topic, [b"ours"])
        cluster.wait(lambda: cluster.logs(topic)[2]["high_watermark"] == 1, GUARD_S)
        cluster.check()
        on_loop(cluster, 2, replace)
        with pytest.raises(InvariantBroken) as caught:
            cluster.check()
    told = "orders-0: broker 2 differs from its leader 1 at offset 0, below the high watermark 1"
    assert [each[: len(told)] for each in caught.value.broken] == [told]


def test_a_leader_that_lost_what_was_committed_is_found():
    with Cluster(brokers=1, host="thread") as cluster:
        topic = cluster.topic("orders")
        produce(cluster, topic, [b"a", b"b"])
        cluster.wait(lambda: "HighWatermarkAdvanced" in cluster.events.kinds(), GUARD_S)
        on_loop(cluster, 1, lambda node: log_of(node, topic).truncate_to(0))
        with pytest.raises(InvariantBroken, match=r"up to 1 were committed, .* ends at 0"):
            cluster.check()


def test_groups_and_metrics_can_be_read(cluster):
    topic = cluster.topic("grouped", replication_factor=3)
    produce(cluster, topic, [b"a", b"b", b"c"])
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    try:
        first = consumer.poll(GUARD_S)
        assert first.value() == b"a"
        consumer.commit(first, asynchronous=False)
        group = cluster.group("billing")
        assert (group.state, len(group.members)) == ("Stable", 1)
        assert (group.committed, group.lag) == ({(topic, 0): 1}, {(topic, 0): 2})
    finally:
        consumer.close()
    measured = cluster.metrics(leader_of(cluster, topic))
    assert measured["kafka_server_replicamanager_underreplicatedpartitions"] == 0


def test_files_on_a_disk_outlive_the_cluster(tmp_path):
    with Cluster(brokers=1, host="thread", disk=tmp_path) as cluster:
        topic = cluster.topic("kept")
        produce(cluster, topic, [b"a"])
        assert (cluster.data_dir(1) / "kept-0").is_dir()
        cluster.kill(1)
        cluster.restart(1)
        assert values_of(cluster, topic) == [b"a"]
        cluster.check()
    with Cluster(brokers=1, host="thread", disk=tmp_path) as cluster:
        assert values_of(cluster, topic) == [b"a"]


def test_an_async_test_enters_it_without_blocking_its_loop():
    async def story():
        async with Cluster(brokers=1, host="thread") as cluster:
            return await asyncio.to_thread(cluster.topic, "orders")

    assert asyncio.run(story()) == "orders"


def test_it_needs_no_uvloop_and_leaves_nothing_open(monkeypatch):
    monkeypatch.setattr(node_thread, "loop_factory", lambda: asyncio.new_event_loop)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with Cluster(brokers=3, host="thread") as cluster:
            topic = cluster.topic("orders", replication_factor=3)
            assert produce(cluster, topic, [b"a"]) == [0]
            cluster.kill(1)
            cluster.restart(1)
            cluster.stop(2)
        gc.collect()
    assert [str(each.message) for each in warned] == []


def test_two_clusters_live_side_by_side():
    with Cluster(brokers=1, host="thread") as one, Cluster(brokers=1, host="thread") as other:
        one.topic("orders")
        assert produce(one, "orders", [b"a"]) == [0]
        other.topic("orders")
        assert values_of(other, "orders") == []


def test_a_node_that_cannot_start_says_why():
    with pytest.raises(ValueError, match=r"(?s)num.partitions=none.*why:"):
        Cluster(brokers=1, host="thread", config={"num.partitions": "none"})
    with Cluster(brokers=1, host="thread") as cluster:
        taken = f"127.0.0.1:{cluster.http_port(1)}"
        second = Cluster(brokers=1, host="thread", config={"tidelog.http.listener": taken})
        with pytest.raises(NodeFailed, match="cannot listen"):
            second.__enter__()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"host": "docker"}, "process"),
        ({"brokers": 0}, "at least one"),
        ({"host": "thread", "secure": True}, "needs host"),
        ({"disk": "a", "directory": "b"}, "two names of one thing"),
    ],
)
def test_what_cannot_be_had_is_refused(arguments, reason):
    with pytest.raises(ValueError, match=reason):
        Cluster(**arguments)


def test_a_failing_test_is_told_what_the_nodes_said():
    def fails():
        with Cluster(brokers=1, host="thread"):
            raise ZeroDivisionError

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ZeroDivisionError) as caught:
            fails()
    assert "--- node 1, running" in caught.value.__notes__[-1]
    assert "broker 1 unfenced" in caught.value.__notes__[-1]
