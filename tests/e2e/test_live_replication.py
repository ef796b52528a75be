"""Replication as the source documents tell it, on processes that are killed and cut off.

A controller of its own decides, so that every broker may be lost. Sessions and lags are patient:
a broker that is paused or cut off for a moment stays where it is, and only a death moves anything.
"""

import pytest
from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from support import live
from support.live import in_sync, leaders, numbered
from tidelog.core.errors import Error
from tidelog.testing import Cluster

PATIENT = {
    "auto.leader.rebalance.enable": False,
    "broker.session.timeout.ms": 30_000,
    "min.insync.replicas": 1,
    "replica.lag.time.max.ms": 30_000,
}
UNDER_REPLICATED = "kafka_server_replicamanager_underreplicatedpartitions"


@pytest.fixture(scope="module")
def patient():
    with Cluster(brokers=3, controllers=1, separate=True, config=PATIENT) as cluster:
        yield cluster


@pytest.fixture
def cluster(patient):
    yield patient
    live.mend(patient)


def test_a_leader_that_dies_under_load_is_followed_by_one_that_has_every_acknowledged_record(
    cluster,
):
    """Handling leader failure; leader epoch."""
    topic = cluster.topic("orders", configs={"min.insync.replicas": 2}, assignment=[[1, 2, 3]])
    before = cluster.partition(topic, 0)
    writer = live.Writer(cluster, topic, acks="all", enable_idempotence=True)
    writer.write(*numbered("order", 200))
    writer.await_acknowledged(50)
    cluster.kill(before.leader)
    writer.write(*numbered("order", 200, 200))
    writer.flush()

    after = cluster.partition(topic, 0)
    assert after.leader in set(before.isr) - {before.leader}
    assert after.leader_epoch == before.leader_epoch + 1
    assert writer.errors == []
    assert writer.acknowledged == numbered("order", 400)
    assert live.read(cluster, topic) == numbered("order", 400)


def test_three_copies_outlive_two_brokers(cluster):
    """Data replication: with N replicas, N - 1 failures."""
    topic = cluster.topic("copies", assignment=[[1, 2, 3]])
    for turn, victim in enumerate((1, 2)):
        live.write(cluster, topic, numbered("copy", 5, 5 * turn), acks="all")
        cluster.kill(victim)
        cluster.wait(lambda victim=victim: cluster.partition(topic, 0).leader == victim + 1)
    live.write(cluster, topic, numbered("copy", 5, 10), acks="all")
    assert live.read(cluster, topic) == numbered("copy", 15)
    assert cluster.partition(topic, 0).leader_epoch == 2


def test_a_new_leader_with_a_lower_high_watermark_asks_for_patience_and_never_shows_less(cluster):
    """Temporary decreased high watermark; advancing the follower high watermark."""
    topic = cluster.topic("marks", assignment=[[1, 2, 3]])
    live.write(cluster, topic, numbered("mark", 10), acks="all")
    cluster.wait(lambda: cluster.replica(2, topic)["high_watermark"] == 10)
    # Broker 2 has ten more records, and cannot be told that broker 3 has them as well.
    cluster.pause(3)
    live.write(cluster, topic, numbered("mark", 10, 10), acks=1)
    cluster.wait(lambda: follower_end(cluster, topic, leader=1, follower=2) == 20)
    assert live.latest(cluster, 1, topic) == (0, 10)
    cluster.partition_off([1], [2])
    cluster.resume(3)
    cluster.wait(lambda: live.latest(cluster, 1, topic) == (0, 20))
    cluster.pause(3)

    with live.reading(cluster, topic) as consumer:
        assert live.take(consumer, 20) == numbered("mark", 20)
        cluster.kill(1)
        cluster.wait(lambda: cluster.partition(topic, 0).leader == 2)
        assert cluster.replica(2, topic)["high_watermark"] == 10
        assert live.latest(cluster, 2, topic) == (Error.OFFSET_NOT_AVAILABLE, -1)
        assert live.latest(cluster, 2, topic, version=4) == (Error.LEADER_NOT_AVAILABLE, -1)
        for offset in (15, 20):
            new = live.fetch(cluster, 2, topic, offset)
            assert (new.error_code, new.high_watermark) == (Error.OFFSET_NOT_AVAILABLE, -1)
            old = live.fetch(cluster, 2, topic, offset, version=live.FETCH_VERSION_BEFORE)
            assert (old.error_code, old.records or b"") == (0, b"")
        known = live.fetch(cluster, 2, topic, 0)
        assert (known.error_code, known.high_watermark) == (0, 10)
        place = TopicPartition(topic, 0)
        with live.reading(cluster, topic) as other, pytest.raises(KafkaException):
            other.get_watermark_offsets(place, timeout=1)
        # What it has seen, or nothing after a fetch that was asked for patience; never less.
        assert consumer.get_watermark_offsets(place, cached=True)[1] not in range(20)

        cluster.resume(3)
        cluster.wait(lambda: live.latest(cluster, 2, topic) == (0, 20))
        live.write(cluster, topic, ["mark 20"], acks="all")
        assert live.take(consumer, 1) == ["mark 20"]
    assert live.read(cluster, topic) == numbered("mark", 21)


def follower_end(cluster, topic, *, leader, follower):
    """What the leader knows a follower to have."""
    progress = cluster.replica(leader, topic)["followers"]
    return next(each["log_end_offset"] for each in progress if each["broker"] == follower)


def test_an_old_leader_truncates_what_nobody_else_had_and_ends_with_the_same_bytes(cluster):
    """Partition replica reconciliation; follower truncates its log; follower reconciled."""
    topic = cluster.topic("cut", assignment=[[1, 2, 3]])
    live.write(cluster, topic, numbered("kept", 10), acks="all")
    cluster.partition_off([1], [2, 3])
    live.write(cluster, topic, numbered("alone", 5), acks=1)
    cluster.kill(1)
    cluster.wait(lambda: cluster.partition(topic, 0).leader == 2)
    live.write(cluster, topic, numbered("newer", 7), acks="all")
    cluster.heal()
    cluster.restart(1)
    cluster.wait(lambda: in_sync(cluster, topic, [1, 2, 3]))

    assert "cut-0 follower 1 truncates its log, end 15 → 10" in cluster.log(1)
    assert "cut-0 leader 2 tells 1, which asks from offset 15" in cluster.log(2)
    assert live.read(cluster, topic) == [*numbered("kept", 10), *numbered("newer", 7)]
    led = live.log_bytes(cluster, 2, topic)
    assert led
    cluster.wait(lambda: live.log_bytes(cluster, 1, topic) == led)
    assert live.log_bytes(cluster, 3, topic) == led


def test_a_follower_that_died_comes_back_catches_up_and_is_in_sync_again(cluster):
    """Follower rejoins the cluster; under-replicated partitions."""
    topic = cluster.topic("return", assignment=[[1, 2, 3]])
    live.write(cluster, topic, numbered("early", 10), acks="all")
    cluster.kill(3)
    cluster.wait(lambda: in_sync(cluster, topic, [1, 2]))
    cluster.wait(lambda: live.metric(cluster, 1, UNDER_REPLICATED) > 0)
    live.write(cluster, topic, numbered("late", 50), acks="all")
    cluster.restart(3)
    cluster.wait(lambda: in_sync(cluster, topic, [1, 2, 3]))

    cluster.wait(lambda: live.metric(cluster, 1, UNDER_REPLICATED) == 0)
    assert cluster.partition(topic, 0).leader_epoch == 0
    assert cluster.replica(3, topic)["log_end_offset"] == 60
    assert live.log_bytes(cluster, 3, topic) == live.log_bytes(cluster, 1, topic)


def test_acks_decide_what_a_producer_waits_for_and_what_too_few_replicas_refuse(cluster):
    """Producer acknowledgment; min in-sync replicas."""
    topic = cluster.topic("acks", configs={"min.insync.replicas": 2}, assignment=[[1, 2, 3]])
    live.write(cluster, topic, ["all"], acks="all")
    cluster.kill(2)
    live.write(cluster, topic, ["all of two"], acks="all")
    cluster.kill(3)
    cluster.wait(lambda: in_sync(cluster, topic, [1]))

    assert live.refusal(cluster, topic, acks="all") == "NOT_ENOUGH_REPLICAS"
    live.write(cluster, topic, ["one"], acks=1)
    live.write(cluster, topic, ["nobody"], acks=0)
    cluster.wait(lambda: cluster.replica(1, topic)["log_end_offset"] == 4)
    assert live.read(cluster, topic) == ["all", "all of two"]

    cluster.restart(2)
    cluster.wait(lambda: live.latest(cluster, 1, topic) == (0, 4))
    live.write(cluster, topic, ["all again"], acks="all")
    assert live.read(cluster, topic) == ["all", "all of two", "one", "nobody", "all again"]


def test_acks_of_the_leader_alone_do_not_wait_for_followers_and_readers_do(cluster):
    """Committing partition offsets; replication is background work with acks=1."""
    topic = cluster.topic("wait", assignment=[[1, 2, 3]])
    live.write(cluster, topic, ["before"], acks="all")
    cluster.partition_off([1], [2, 3])
    live.write(cluster, topic, ["during"], acks=1)
    waiting = live.Writer(cluster, topic, acks="all")
    waiting.write("waiting")
    cluster.wait(lambda: cluster.replica(1, topic)["parked_produces"] == 1)
    assert live.read(cluster, topic) == ["before"]
    assert waiting.acknowledged == []

    cluster.heal()
    waiting.flush()
    assert waiting.acknowledged == ["waiting"]
    assert live.read(cluster, topic) == ["before", "during", "waiting"]


def test_an_administrator_can_send_leaders_home_without_waiting_for_a_check(cluster):
    """Partition leader balancing: the preferred replica is the first one."""
    topic = cluster.topic("asked", assignment=[[1, 2, 3]])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    cluster.kill(1)
    cluster.wait(lambda: leaders(cluster, topic) == [2])
    cluster.restart(1)
    cluster.wait(lambda: in_sync(cluster, topic, [1, 2, 3]))
    assert leaders(cluster, topic) == [2]

    wanted = TopicPartition(topic, 0)
    elected = admin.elect_leaders(ElectionType.PREFERRED, [wanted]).result(live.GUARD_S)
    assert elected[wanted] is None, elected[wanted]
    cluster.wait(lambda: leaders(cluster, topic) == [1])
    assert cluster.partition(topic, 0).leader_epoch == 2
