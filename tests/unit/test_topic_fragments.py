"""Metadata answers from kept parts are what the codec would have written."""

import pytest

from tidelog.broker.answers.neighbours import neighbours
from tidelog.broker.answers.topic_fragments import (
    TopicFragments,
    View,
    assemble,
    described,
    encode_topic,
)
from tidelog.core.metadata import records as r
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.replay import replay
from tidelog.wire.protocol import decode, encode
from tidelog.wire.protocol.schemas.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)

LISTENER = "PLAINTEXT"
A, B = b"a" * 16, b"b" * 16


def image(topics: int = 2, partitions: int = 3) -> MetadataImage:
    made = MetadataImage()
    for broker_id in (1, 2, 3):
        endpoints = (r.Endpoint(LISTENER, f"host-{broker_id}", 9092),)
        replay(
            made,
            r.RegisterBroker(
                broker_id, bytes([broker_id]) * 16, broker_id, endpoints, fenced=False
            ),
        )
    for number in range(topics):
        topic_id = bytes([97 + number]) * 16
        replay(made, r.Topic(f"topic-{number}", topic_id))
        for index in range(partitions):
            replay(made, r.Partition(index, topic_id, (1, 2, 3), (1, 2), leader=1))
    return made


@pytest.mark.parametrize("version", range(14))
@pytest.mark.parametrize("topics", [0, 1, 2, 26])
def test_an_assembled_answer_is_byte_by_byte_the_encoded_one(version: int, topics: int) -> None:
    made = image(topics)
    live = neighbours(made, LISTENER)
    view = View(version, LISTENER, with_operations=True)
    fragments = TopicFragments(view)
    fragments.see(live)
    envelope = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="host-1", port=9092, rack="r")],
        cluster_id="c",
        controller_id=1,
        cluster_authorized_operations=77,
    )
    parts = [fragments.of(made, topic, 7) for topic in made.topics.values()]
    whole = assemble(envelope, parts, version)
    envelope.topics = [described(made, topic, live, view) for topic in made.topics.values()]
    assert whole == encode(envelope, version)


@pytest.mark.parametrize("version", range(14))
def test_more_topics_than_one_byte_counts(version: int) -> None:
    part = encode_topic(MetadataResponseTopic(name="t"), version)
    whole = assemble(MetadataResponse(), [part] * 300, version)
    assert len(decode(MetadataResponse, version, whole).topics) == 300


def test_a_topic_is_encoded_again_only_after_it_changed() -> None:
    made = image()
    fragments = TopicFragments(View(12, LISTENER, with_operations=False))
    fragments.see(neighbours(made, LISTENER))
    a, b = made.topics[A], made.topics[B]
    before = fragments.of(made, a, 10), fragments.of(made, b, 10)
    replay(made, r.PartitionChange(1, A, leader=2))
    assert fragments.of(made, a, 11) != before[0]
    assert fragments.of(made, b, 11) is before[1]


def test_a_broker_that_goes_shows_in_every_topic() -> None:
    made = image()
    fragments = TopicFragments(View(12, LISTENER, with_operations=False))
    fragments.see(neighbours(made, LISTENER))
    before = fragments.of(made, made.topics[A], 10)
    replay(made, r.BrokerRegistrationChange(3, 3, fenced=1))
    fragments.see(neighbours(made, LISTENER))
    after = fragments.of(made, made.topics[A], 11)
    assert after != before
    answer = decode(MetadataResponse, 12, assemble(MetadataResponse(), [after], 12))
    assert [list(each.offline_replicas) for each in answer.topics[0].partitions] == [[3]] * 3


def test_a_deleted_topic_leaves_nothing_behind_and_its_name_may_return() -> None:
    made = image(topics=1)
    fragments = TopicFragments(View(12, LISTENER, with_operations=False))
    fragments.see(neighbours(made, LISTENER))
    before = fragments.of(made, made.topics[A], 10)
    replay(made, r.RemoveTopic(A))
    replay(made, r.Topic("topic-0", B))
    for index in range(3):
        replay(made, r.Partition(index, B, (1, 2, 3), (1, 2), leader=1))
    assert fragments.of(made, made.topics[B], 11) != before
