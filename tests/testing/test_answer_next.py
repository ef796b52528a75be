"""Requests that are made to fail: by name, so many times, and never carried out."""

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tidelog.core.errors import Error
from tidelog.rpc.failed_answers import METADATA, can_fail, failed_answer
from tidelog.testing import Cluster
from tidelog.wire.protocol import (
    decode,
    encode_response,
    encode_response_header,
    request_class,
    response_class,
)
from tidelog.wire.protocol.apis import APIS
from tidelog.wire.protocol.message import REQUIRED, Struct

GUARD_S = 60


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=3, host="thread") as running:
        yield running


def send(cluster, topic, value=b"a", **settings):
    """What the client is told in the end: an offset, or the name of an error."""
    told = []
    servers = {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0}
    producer = Producer({**servers, "retry.backoff.ms": 10, **settings})
    producer.produce(
        topic, value, on_delivery=lambda error, message: told.append((error, message.offset()))
    )
    assert producer.flush(GUARD_S) == 0
    error, offset = told[0]
    return offset if error is None else error.name()


def test_a_client_tries_again_after_errors_that_pass(cluster):
    topic = cluster.topic("retried", replication_factor=3)
    cluster.answer_next("Produce", "NOT_ENOUGH_REPLICAS", times=2)
    assert send(cluster, topic) == 0
    assert len(cluster.records(topic)) == 1, "what failed was not carried out"


def test_a_client_gives_up_after_errors_that_do_not(cluster):
    topic = cluster.topic("refused", replication_factor=3)
    cluster.answer_next("Produce", "TOPIC_AUTHORIZATION_FAILED")
    assert send(cluster, topic) == "TOPIC_AUTHORIZATION_FAILED"
    assert cluster.records(topic) == []
    assert send(cluster, topic) == 0, "only one was asked for"


def test_only_requests_for_one_topic_or_to_one_broker_fail(cluster):
    one = cluster.topic("one", assignment=[[1, 2, 3]])
    other = cluster.topic("other", assignment=[[2, 3, 1]])
    cluster.answer_next("Produce", "INVALID_RECORD", topic=one)
    assert send(cluster, other) == 0
    assert send(cluster, one) == "INVALID_RECORD"
    cluster.answer_next("Produce", "INVALID_RECORD", node=2)
    assert send(cluster, one) == 0
    assert send(cluster, other) == "INVALID_RECORD"


def test_what_was_asked_for_can_be_taken_back(cluster):
    topic = cluster.topic("taken-back", replication_factor=3)
    cluster.answer_next("Produce", "INVALID_RECORD", times=100)
    assert send(cluster, topic) == "INVALID_RECORD"
    cluster.answer_as_usual()
    assert send(cluster, topic) == 0


def test_followers_go_on_while_fetches_of_clients_fail(cluster):
    topic = cluster.topic("fetched", replication_factor=3)
    cluster.answer_next("Fetch", "OFFSET_OUT_OF_RANGE", topic=topic)
    assert send(cluster, topic) == 0, "with acks=all, so they have fetched it"
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "readers",
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    try:
        cluster.answer_next("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS", times=2)
        first = consumer.poll(GUARD_S)
        assert first.error() is not None
        assert first.error().name() == "_AUTO_OFFSET_RESET"
    finally:
        consumer.close()
        cluster.answer_as_usual()


def test_a_topic_is_not_made_by_a_request_that_fails(cluster):
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    cluster.answer_next("CreateTopics", "POLICY_VIOLATION")
    failed = admin.create_topics([NewTopic("made", 1, 1)])["made"]
    with pytest.raises(KafkaException, match="POLICY_VIOLATION"):
        failed.result(GUARD_S)
    admin.create_topics([NewTopic("made", 1, 1)])["made"].result(GUARD_S)


def test_metadata_that_fails_still_names_the_brokers(cluster):
    topic = cluster.topic("looked-up", replication_factor=3)
    cluster.answer_next("Metadata", "LEADER_NOT_AVAILABLE", times=2, topic=topic)
    assert send(cluster, topic) == 0
    assert cluster.partition(topic).leader is not None


@pytest.mark.parametrize(
    ("api", "error", "reason"),
    [
        ("Prodce", "NOT_ENOUGH_REPLICAS", r"no API 'Prodce' .*: Produce, if that was meant"),
        ("ApiVersions", "NOT_ENOUGH_REPLICAS", "no API 'ApiVersions'"),
        ("Vote", "NOT_ENOUGH_REPLICAS", "no API 'Vote'"),
        ("Produce", "NOT_ENOUGH_REPLICA", "NOT_ENOUGH_REPLICAS, if that was meant"),
        ("Produce", "NONE", "no error of Kafka's is called 'NONE'"),
    ],
)
def test_names_that_nobody_knows_are_refused_with_the_nearest_one(cluster, api, error, reason):
    with pytest.raises(ValueError, match=reason):
        cluster.answer_next(api, error)


def test_numbers_that_mean_nothing_are_refused(cluster):
    with pytest.raises(ValueError, match="times=0"):
        cluster.answer_next("Produce", "INVALID_RECORD", times=0)
    with pytest.raises(ValueError, match="node=9 is no broker"):
        cluster.answer_next("Produce", "INVALID_RECORD", node=9)


def test_processes_do_as_they_are_told_over_http():
    with Cluster(brokers=2) as cluster:
        topic = cluster.topic("orders", assignment=[[1, 2]])
        with pytest.raises(ValueError, match="which broker"):
            cluster.answer_next("Produce", "INVALID_RECORD")
        cluster.answer_next("Produce", "INVALID_RECORD", node=1, times=2)
        assert send(cluster, topic) == "INVALID_RECORD"
        cluster.answer_as_usual()
        assert send(cluster, topic) == 0
        assert cluster.events.saw("LeaderElected", "the next 2 of Produce get INVALID_RECORD")
        cluster.check()


def filled(kind):
    """A message, or a part of one, with one of everything that it has lists of."""
    if isinstance(kind, str):
        return {"string": "x", "uuid": bytes(16), "bytes": b"", "records": b""}.get(kind, 0)
    rows = [row for row in kind.__fields__ if row.is_array or row.default is REQUIRED]
    parts = {row.name: filled(row.kind) for row in rows}
    return kind(
        **{row.name: [parts[row.name]] if row.is_array else parts[row.name] for row in rows}
    )


def errors_in(part):
    """Every error code of an answer, wherever it is."""
    for row in part.__fields__:
        value = getattr(part, row.name)
        if row.name.endswith("error_code"):
            yield value
        for each in value if row.is_array and value else [value]:
            if isinstance(each, Struct):
                yield from errors_in(each)


SCRIPTABLE = [api for api in APIS if api.for_clients and api.key != METADATA and can_fail(api.key)]


@pytest.mark.parametrize("api", SCRIPTABLE, ids=lambda api: api.name)
def test_every_version_of_an_answer_carries_the_error(api):
    request = request_class(api.key)
    for version in range(api.full.first, api.full.last + 1):
        if version not in request.__versions__:
            continue
        answer = failed_answer(filled(request), version, Error.REQUEST_TIMED_OUT)
        body = b"".join(encode_response(1, answer, version))
        begin = len(encode_response_header(1, api.key, version))
        read = decode(response_class(api.key), version, body, begin)
        assert Error.REQUEST_TIMED_OUT in errors_in(read), version
