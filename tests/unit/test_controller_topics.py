"""Topics and settings: what is written, and what is refused with which reason."""

from typing import Any

import pytest

from support.controller_cluster import Cluster
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.metadata.group_configs import GroupLimits
from tidelog.core.requests import (
    AdminResponse,
    AlterConfigRequest,
    CreatePartitionsRequest,
    CreateTopicRequest,
    CreateTopicResponse,
    DeleteTopicRequest,
)

TOPIC, BROKER = r.RESOURCE_TOPIC, r.RESOURCE_BROKER


def three_brokers(**settings: Any) -> Cluster:
    cluster = Cluster(**settings)
    cluster.start_brokers(1, 2, 3)
    return cluster


def test_a_topic_with_its_settings_and_partitions_is_one_atomic_batch() -> None:
    cluster = three_brokers()
    request = CreateTopicRequest("t", 2, 2, configs=(("retention.ms", "5"),))
    response = cluster.ask(request)
    topic_id = response.topic_id
    assert response == CreateTopicResponse(Error.NONE, "", topic_id, 2, 2)
    assert cluster.log[-1].records == (
        r.Topic("t", topic_id),
        r.Config(TOPIC, "t", "retention.ms", "5"),
        r.Partition(0, topic_id, (1, 2), (1, 2), leader=1),
        r.Partition(1, topic_id, (2, 3), (2, 3), leader=2),
    )
    assert cluster.records_of(request) == ()
    assert cluster.ask(request).error is Error.TOPIC_ALREADY_EXISTS, "a duplicated request"


def test_defaults_fill_what_a_request_leaves_open() -> None:
    cluster = three_brokers(default_partitions=4, default_replication_factor=3)
    cluster.ask(CreateTopicRequest("t"))
    topic = cluster.image.topics[cluster.image.topic_ids["t"]]
    assert [len(p.replicas) for p in topic.partitions.values()] == [3, 3, 3, 3]


def test_new_partitions_have_their_active_replicas_in_sync() -> None:
    cluster = three_brokers()
    cluster.beat(1, fence=True)
    name = cluster.create("t", (1, 2, 3))
    partition = cluster.partition(name)
    assert (partition.leader, partition.isr) == (2, (2, 3))
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (CreateTopicRequest("bad name"), Error.INVALID_TOPIC_EXCEPTION),
        (CreateTopicRequest("there"), Error.TOPIC_ALREADY_EXISTS),
        (CreateTopicRequest("with.dot"), Error.INVALID_TOPIC_EXCEPTION),
        (CreateTopicRequest("t", partitions=0), Error.INVALID_PARTITIONS),
        (CreateTopicRequest("t", partitions=-5), Error.INVALID_PARTITIONS),
        (CreateTopicRequest("t", partitions=2**31 - 1), Error.POLICY_VIOLATION),
        (CreateTopicRequest("t", replication_factor=0), Error.INVALID_REPLICATION_FACTOR),
        (CreateTopicRequest("t", replication_factor=4), Error.INVALID_REPLICATION_FACTOR),
        (CreateTopicRequest("t", 1, assignment=((1,),)), Error.INVALID_REQUEST),
        (CreateTopicRequest("t", assignment=((1, 1),)), Error.INVALID_REPLICA_ASSIGNMENT),
        (CreateTopicRequest("t", assignment=((1, 9),)), Error.INVALID_REPLICA_ASSIGNMENT),
        (CreateTopicRequest("t", assignment=((1,), ())), Error.INVALID_REPLICA_ASSIGNMENT),
        (CreateTopicRequest("t", assignment=((1,), (2, 3))), Error.INVALID_REPLICA_ASSIGNMENT),
        (CreateTopicRequest("t", assignment=((4,),)), Error.INVALID_REPLICA_ASSIGNMENT),
        (CreateTopicRequest("t", configs=(("retention.mss", "5"),)), Error.INVALID_CONFIG),
        (CreateTopicRequest("t", configs=(("retention.ms", "soon"),)), Error.INVALID_CONFIG),
        (
            CreateTopicRequest("t", configs=(("retention.ms", "5"), ("retention.ms", "6"))),
            Error.INVALID_CONFIG,
        ),
    ],
)
def test_topics_that_cannot_be(request_: CreateTopicRequest, error: Error) -> None:
    cluster = three_brokers()
    cluster.register(4)  # and stays fenced
    cluster.beat(4, fence=True)
    cluster.create("there", (1,))
    cluster.create("with_dot", (1,))
    limited = request_.replication_factor == 4
    if limited:
        cluster.beat(4, stop=True)  # a broker that leaves gets nothing new
    assert cluster.records_of(request_) == ()
    response = cluster.ask(request_)
    assert response.error is error
    assert response.message


def test_validating_writes_nothing() -> None:
    cluster = three_brokers()
    assert cluster.records_of(CreateTopicRequest("t", validate_only=True)) == ()
    assert cluster.ask(CreateTopicRequest("t", validate_only=True)).error is Error.NONE
    response = cluster.ask(CreateTopicRequest("t", 2, 3, validate_only=True))
    assert (response.partitions, response.replication_factor) == (2, 3)
    bad = CreateTopicRequest("t", replication_factor=9, validate_only=True)
    assert cluster.ask(bad).error is Error.INVALID_REPLICATION_FACTOR


def test_a_topic_grows_and_keeps_its_replication_factor() -> None:
    cluster = three_brokers()
    name = cluster.create("t", (1, 2))
    records = cluster.records_of(CreatePartitionsRequest("t", 3))
    assert [type(record) for record in records] == [r.Partition, r.Partition]
    partitions = cluster.image.topics[name.topic_id].partitions
    assert [len(partition.replicas) for partition in partitions.values()] == [2, 2, 2]
    assert cluster.records_of(CreatePartitionsRequest("t", 4, ((3, 1),))) == (
        r.Partition(3, name.topic_id, (3, 1), (3, 1), leader=3),
    )


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (CreatePartitionsRequest("none", 3), Error.UNKNOWN_TOPIC_OR_PARTITION),
        (CreatePartitionsRequest("t", 1), Error.INVALID_PARTITIONS),
        (CreatePartitionsRequest("t", 0), Error.INVALID_PARTITIONS),
        (CreatePartitionsRequest("t", 2**31 - 1), Error.POLICY_VIOLATION),
        (CreatePartitionsRequest("t", 3, ((1, 2),)), Error.INVALID_REPLICA_ASSIGNMENT),
        (CreatePartitionsRequest("t", 2, ((1,),)), Error.INVALID_REPLICA_ASSIGNMENT),
        (CreatePartitionsRequest("t", 2, ((1, 9),)), Error.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_partitions_that_cannot_be_added(request_: CreatePartitionsRequest, error: Error) -> None:
    cluster = three_brokers()
    cluster.create("t", (1, 2))
    assert cluster.records_of(request_) == ()
    assert cluster.ask(request_).error is error


def test_a_removed_topic_is_gone_with_its_settings() -> None:
    cluster = three_brokers()
    cluster.create("t", (1, 2), retention_ms="5")
    assert cluster.ask(DeleteTopicRequest("t")) == AdminResponse(Error.NONE)
    assert cluster.ask(DeleteTopicRequest("t")).error is Error.UNKNOWN_TOPIC_OR_PARTITION
    assert (TOPIC, "t") not in cluster.image.configs
    assert not cluster.image.leads_any(1)


# -- settings -------------------------------------------------------------------------------------


def test_validating_partitions_and_settings_writes_nothing_either() -> None:
    cluster = three_brokers()
    cluster.create("t", (1, 2))
    for good, bad in (
        (
            CreatePartitionsRequest("t", 3, validate_only=True),
            CreatePartitionsRequest("t", 1, validate_only=True),
        ),
        (
            AlterConfigRequest(TOPIC, "t", (("retention.ms", "5"),), validate_only=True),
            AlterConfigRequest(TOPIC, "t", (("retention.ms", "x"),), validate_only=True),
        ),
    ):
        assert cluster.records_of(good) == ()
        assert cluster.ask(good).error is Error.NONE
        assert cluster.ask(bad).error is not Error.NONE


def test_a_topic_is_deleted_by_its_id_and_its_successor_is_not() -> None:
    cluster = three_brokers()
    old = cluster.create("t", (1, 2)).topic_id
    by_id = DeleteTopicRequest("", old)
    assert cluster.records_of(by_id) == (r.RemoveTopic(old),)
    cluster.create("t", (1, 2))
    response = cluster.ask(by_id)
    assert response.error is Error.UNKNOWN_TOPIC_ID
    assert old.hex() in response.message
    assert "t" in cluster.image.topic_ids


def test_settings_change_together_and_only_what_differs_is_written() -> None:
    cluster = three_brokers()
    cluster.create("t", (1, 2), retention_ms="5", segment_ms="7")
    request = AlterConfigRequest(
        TOPIC, "t", (("retention.ms", "5"), ("segment.ms", None), ("retention.bytes", "9"))
    )
    assert cluster.records_of(request) == (
        r.Config(TOPIC, "t", "segment.ms", None),
        r.Config(TOPIC, "t", "retention.bytes", "9"),
    )
    assert cluster.records_of(request) == (), "repeated"


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (
            AlterConfigRequest(TOPIC, "none", (("retention.ms", "5"),)),
            Error.UNKNOWN_TOPIC_OR_PARTITION,
        ),
        (
            AlterConfigRequest(TOPIC, "t", (("retention.bytes", "1"), ("retention.ms", "x"))),
            Error.INVALID_CONFIG,
        ),
        (
            AlterConfigRequest(TOPIC, "t", (("retention.ms", "1"), ("retention.ms", "2"))),
            Error.INVALID_REQUEST,
        ),
        (
            AlterConfigRequest(TOPIC, "t", (("max.compaction.lag.ms", "1"),)),
            Error.INVALID_CONFIG,
        ),
        (AlterConfigRequest(BROKER, "one", (("retention.ms", "5"),)), Error.INVALID_REQUEST),
        (AlterConfigRequest(BROKER, "9" * 5000, (("retention.ms", "5"),)), Error.INVALID_REQUEST),
        (AlterConfigRequest(BROKER, "1", (("min.insync.replicas", "2"),)), Error.INVALID_CONFIG),
        (AlterConfigRequest(BROKER, "", (("min.insync.replicas", None),)), Error.INVALID_CONFIG),
        (
            AlterConfigRequest(BROKER, "1", (("leader.replication.throttled.rate", "-1"),)),
            Error.INVALID_REQUEST,
        ),
        (AlterConfigRequest(3, "t", (("retention.ms", "5"),)), Error.INVALID_REQUEST),
    ],
)
def test_one_wrong_setting_and_none_is_made(request_: AlterConfigRequest, error: Error) -> None:
    cluster = three_brokers()
    cluster.create("t", (1, 2), min_compaction_lag_ms="5")
    assert cluster.records_of(request_) == ()
    response = cluster.ask(request_)
    assert response.error is error
    assert response.message


GROUP, METRICS = 32, 16
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def test_groups_have_settings_within_the_limits_of_the_cluster() -> None:
    limits = GroupLimits(min_session_timeout_ms=6_000, min_heartbeat_interval_ms=1_000)
    cluster = three_brokers(group_limits=limits)
    quick = ((SESSION, "6000"), (HEARTBEAT, "1000"))
    assert cluster.records_of(AlterConfigRequest(GROUP, "g", quick)) == tuple(
        r.Config(GROUP, "g", *setting) for setting in quick
    )
    assert cluster.ask(AlterConfigRequest(GROUP, "g", quick)).error is Error.NONE
    refused = cluster.ask(AlterConfigRequest(GROUP, "g", ((HEARTBEAT, "7000"),)))
    assert refused.error is Error.INVALID_CONFIG
    assert refused.message == f"{SESSION}=6000 must be above {HEARTBEAT}=7000"
    assert cluster.ask(AlterConfigRequest(GROUP, "g", ((SESSION, None),))).error is Error.NONE


def test_a_subscription_to_client_metrics_is_stored() -> None:
    cluster = three_brokers()
    settings = (
        ("interval.ms", "1000"),
        ("metrics", "org.apache.kafka.consumer.,org.apache.kafka.producer."),
        ("match", "client_software_name=apache-kafka.*,client_id=a"),
    )
    assert cluster.records_of(AlterConfigRequest(METRICS, "all", settings)) == tuple(
        r.Config(METRICS, "all", *setting) for setting in settings
    )


@pytest.mark.parametrize(
    ("kind", "name", "setting", "error"),
    [
        (GROUP, "", (SESSION, "50000"), Error.INVALID_REQUEST),
        (GROUP, "g", (SESSION, "44999"), Error.INVALID_CONFIG),
        (GROUP, "g", (SESSION, "60001"), Error.INVALID_CONFIG),
        (GROUP, "g", (SESSION, "soon"), Error.INVALID_CONFIG),
        (GROUP, "g", (HEARTBEAT, "4999"), Error.INVALID_CONFIG),
        (GROUP, "g", ("share.session.timeout.ms", "50000"), Error.INVALID_CONFIG),
        (GROUP, "g", ("retention.ms", "5"), Error.INVALID_CONFIG),
        (METRICS, "", ("interval.ms", "1000"), Error.INVALID_REQUEST),
        (METRICS, "all", ("interval.ms", "99"), Error.INVALID_CONFIG),
        (METRICS, "all", ("match", "client_shoe_size=44"), Error.INVALID_CONFIG),
        (METRICS, "all", ("match", "client_id"), Error.INVALID_CONFIG),
        (METRICS, "all", ("retention.ms", "5"), Error.INVALID_CONFIG),
    ],
)
def test_settings_that_groups_and_subscriptions_cannot_have_are_refused(
    kind: int, name: str, setting: tuple[str, str], error: Error
) -> None:
    request = AlterConfigRequest(kind, name, (setting,))
    cluster = three_brokers()
    assert cluster.records_of(request) == ()
    response = cluster.ask(request)
    assert response.error is error
    assert response.message


def test_brokers_have_settings_too() -> None:
    cluster = three_brokers(elr_enabled=False)
    rate = (("leader.replication.throttled.rate", "1000"), ("min.insync.replicas", "2"))
    assert len(cluster.records_of(AlterConfigRequest(BROKER, "1", rate))) == 2


def test_a_node_judges_the_settings_of_brokers_by_the_keys_it_knows() -> None:
    known = {"log.retention.ms": None, "listeners": "they are opened at the start"}
    cluster = three_brokers(check_broker_config=lambda name, _: known.get(name, "who?"))
    granted = AlterConfigRequest(BROKER, "", (("log.retention.ms", "5"),))
    assert cluster.records_of(granted) == (r.Config(BROKER, "", "log.retention.ms", "5"),)
    refused = cluster.ask(AlterConfigRequest(BROKER, "1", (("listeners", "A://:1"),)))
    assert refused == AdminResponse(Error.INVALID_REQUEST, "they are opened at the start")


def test_removing_a_topics_minimum_brings_back_the_clusters() -> None:
    cluster = three_brokers(min_insync_replicas=1)
    name = cluster.create("t", (1, 2, 3), min_insync_replicas="3")
    cluster.propose(1, cluster.proposal(name, 1, 2))
    assert cluster.partition(name).elr == (3,)
    remove = AlterConfigRequest(TOPIC, "t", (("min.insync.replicas", None),))
    assert cluster.records_of(remove) == (
        r.PartitionChange(0, name.topic_id, elr=()),
        r.Config(TOPIC, "t", "min.insync.replicas", None),
    )


def test_a_change_that_does_not_fit_into_one_batch_is_refused() -> None:
    cluster = three_brokers(max_records_per_batch=10)
    for topic in ("a", "b"):
        cluster.create(topic, *[(1, 2)] * 8)
    raise_all = AlterConfigRequest(BROKER, "", (("min.insync.replicas", "2"),))
    assert cluster.records_of(raise_all) == ()
    assert cluster.ask(raise_all).error is Error.POLICY_VIOLATION
    one = AlterConfigRequest(TOPIC, "a", (("min.insync.replicas", "2"),))
    assert len(cluster.records_of(one)) == 9
