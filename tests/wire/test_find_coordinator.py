"""Who coordinates a group or a transaction, and how the topic that they live on comes to be."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from support.admin_story import AdminStory, admin_story
from support.broker_config import CLIENTS, INSIDE, OWN_ID
from support.loopback import run, until
from tidelog.broker.coordination import coordinators
from tidelog.broker.coordination.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidelog.core.metadata import records as r
from tidelog.core.types import NO_LEADER
from tidelog.wire.protocol import Message
from tidelog.wire.protocol.schemas.create_topics_request import CreateTopicsRequest
from tidelog.wire.protocol.schemas.create_topics_response import (
    CreatableTopicResult,
    CreateTopicsResponse,
)
from tidelog.wire.protocol.schemas.find_coordinator_request import FindCoordinatorRequest
from tidelog.wire.protocol.schemas.find_coordinator_response import (
    Coordinator,
    FindCoordinatorResponse,
)

NEWEST = 6
CREATE_TOPICS = 19
GROUP, TRANSACTION = 0, 1

Story = Callable[[AdminStory], Awaitable[None]]
Asked = asyncio.Future[list[Coordinator]]


def told(data: Path, story: Story, **settings: str) -> None:
    async def main() -> None:
        async with admin_story(data, **settings) as s:
            await story(s)

    run(main)


async def find(
    s: AdminStory,
    *keys: str,
    key_type: int = GROUP,
    version: int = NEWEST,
    listener: str = CLIENTS,
) -> list[Coordinator]:
    """Old forms are shown as the new one."""
    request = FindCoordinatorRequest(key=keys[0], coordinator_keys=keys, key_type=key_type)
    answer = await s.ask(request, version, listener)
    assert isinstance(answer, FindCoordinatorResponse)
    if version >= 4:
        assert [each.key for each in answer.coordinators] == list(keys)
        return list(answer.coordinators)
    only = Coordinator(
        key=keys[0],
        node_id=answer.node_id,
        host=answer.host,
        port=answer.port,
        error_code=answer.error_code,
        error_message=answer.error_message,
    )
    return [only]


async def finding(s: AdminStory, *keys: str, key_type: int = GROUP) -> Asked:
    """Asked for, and not answered at once."""
    asked = asyncio.ensure_future(find(s, *keys, key_type=key_type))
    await s.other_traffic()
    assert not asked.done(), asked
    return asked


async def errors(s: AdminStory, asked: Asked) -> list[int]:
    """Of the answer, which comes when enough time has passed."""
    while not asked.done():
        s.pass_time(50)
        await asyncio.sleep(0.001)
    return [each.error_code for each in asked.result()]


def created(_: Message) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreatableTopicResult(name=CONSUMER_OFFSETS)])


def creations(s: AdminStory) -> list[CreateTopicsRequest]:
    return [each for _, each in s.controller.asked if isinstance(each, CreateTopicsRequest)]


@pytest.mark.parametrize("version", range(NEWEST + 1))
def test_a_coordinator_has_the_address_of_the_listener_one_came_through(
    tmp_path: Path, version: int
) -> None:
    async def story(s: AdminStory) -> None:
        s.create_topic(CONSUMER_OFFSETS, 3)
        for listener, host in ((CLIENTS, f"{CLIENTS}-1"), (INSIDE, f"{INSIDE}-1")):
            (coordinator,) = await find(s, "g", version=version, listener=listener)
            assert (coordinator.error_code, coordinator.node_id) == (0, OWN_ID)
            assert (coordinator.host, coordinator.port) == (host.lower(), 9001)
        assert creations(s) == []

    told(tmp_path, story)


@pytest.mark.parametrize(
    ("key", "java_hash_code"),
    [
        ("", 0),
        ("a", 97),
        ("audit", 93_166_555),
        ("billing", -109_829_509),
        ("import-0", -422_370_296),
        ("polygenelubricants", -(2**31)),
    ],
)
def test_a_key_belongs_to_the_partition_that_kafka_looks_into(
    key: str, java_hash_code: int
) -> None:
    """Kafka's `Utils.abs`: of the smallest number it is 0. Half of all keys have a negative one."""
    expected = 0 if java_hash_code == -(2**31) else abs(java_hash_code)
    assert coordinators.java_hash(key) == expected


@pytest.mark.parametrize("version", range(1, NEWEST + 1))
def test_other_keys_have_no_coordinator(tmp_path: Path, version: int) -> None:
    async def story(s: AdminStory) -> None:
        keys = ("a",) if version < 4 else ("a", "b")
        for each in await find(s, *keys, key_type=2, version=version):
            assert (each.error_code, each.node_id, each.port) == (42, -1, -1)
            assert "key type 2" in (each.error_message or "")
        assert creations(s) == []

    told(tmp_path, story)


def test_the_first_client_makes_the_topic_and_is_answered_when_it_is_there(tmp_path: Path) -> None:
    async def story(s: AdminStory) -> None:
        s.controller.script[CREATE_TOPICS] = created
        asked = await finding(s, "g", "h")
        await until(lambda: creations(s))
        s.create_topic(CONSUMER_OFFSETS)
        assert await errors(s, asked) == [0, 0]
        (request,) = creations(s)
        (topic,) = request.topics
        assert (topic.name, topic.num_partitions, topic.replication_factor) == (
            CONSUMER_OFFSETS,
            6,
            3,
        )
        assert {each.name: each.value for each in topic.configs} == {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "segment.bytes": "4096000",
        }

    told(tmp_path, story, offsets_topic_num_partitions="6", offsets_topic_segment_bytes="4096000")


def test_a_small_cluster_gets_as_many_replicas_as_it_has_brokers(tmp_path: Path) -> None:
    """Also those that are down: they will be back, and the topic stays as it was created."""

    async def story(s: AdminStory) -> None:
        brokers = s.broker.image.brokers
        s.commit(r.UnregisterBroker(3, brokers[3].broker_epoch))
        s.commit(r.BrokerRegistrationChange(2, brokers[2].broker_epoch, fenced=1))
        asked = await finding(s, "t", key_type=TRANSACTION)
        await until(lambda: creations(s))
        s.create_topic(TRANSACTION_STATE)
        assert await errors(s, asked) == [0]
        (request,) = creations(s)
        (topic,) = request.topics
        assert (topic.name, topic.replication_factor) == (TRANSACTION_STATE, 2)
        configs = {each.name: each.value for each in topic.configs}
        assert configs["min.insync.replicas"] == "2"
        assert configs["unclean.leader.election.enable"] == "false"

    told(
        tmp_path,
        story,
        transaction_state_log_min_isr="3",
        transaction_state_log_num_partitions="1",
    )


def test_many_who_ask_at_once_make_the_topic_once(tmp_path: Path) -> None:
    async def story(s: AdminStory) -> None:
        asked = [
            asyncio.ensure_future(find(s, "g", version=version, listener=listener))
            for version in (3, NEWEST)
            for listener in (CLIENTS, INSIDE)
        ]
        await until(lambda: creations(s))
        s.create_topic(CONSUMER_OFFSETS)
        for each in asked:
            assert await errors(s, each) == [0]
        assert len(creations(s)) == 1

    told(tmp_path, story)


def test_a_topic_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    async def story(s: AdminStory) -> None:
        def refuse(_: Message) -> CreateTopicsResponse:
            refusal = CreatableTopicResult(
                name=CONSUMER_OFFSETS, error_code=38, error_message="too few brokers"
            )
            return CreateTopicsResponse(topics=[refusal])

        s.controller.script[CREATE_TOPICS] = refuse
        (refused,) = await find(s, "g")
        assert refused.error_code == 15
        assert "too few brokers" in (refused.error_message or "")

        del s.controller.script[CREATE_TOPICS]
        asked = await finding(s, "g")
        assert await errors(s, asked) == [15]
        assert CONSUMER_OFFSETS in (asked.result()[0].error_message or "")

    told(tmp_path, story)


def free_port() -> int:
    """Where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_coordinator_that_died_is_not_told_of_before_the_next_one_is_known(
    tmp_path: Path,
) -> None:
    async def story(s: AdminStory) -> None:
        endpoints = tuple(r.Endpoint(name, "127.0.0.1", free_port()) for name in (CLIENTS, INSIDE))
        s.commit(r.RegisterBroker(4, b"incarnation".ljust(16), 50, endpoints, fenced=False))
        topic_id = s.create_topic(CONSUMER_OFFSETS, replicas=(4, 3))
        asked = asyncio.ensure_future(find(s, "g"))
        await until(s.broker.suspected.remain)
        await s.other_traffic()
        assert not asked.done()
        s.commit(
            r.PartitionChange(0, topic_id, isr=(3,), leader=3),
            r.BrokerRegistrationChange(4, 50, fenced=1),
        )
        (found,) = await asked
        assert (found.error_code, found.node_id) == (0, 3)

    told(tmp_path, story)


def test_a_partition_without_a_leader_is_waited_for_and_not_for_ever(tmp_path: Path) -> None:
    async def story(s: AdminStory) -> None:
        topic_id = s.create_topic(CONSUMER_OFFSETS)
        s.commit(r.PartitionChange(0, topic_id, leader=NO_LEADER))
        asked = await finding(s, "g")
        s.commit(r.PartitionChange(0, topic_id, leader=OWN_ID))
        assert await errors(s, asked) == [0]

        s.commit(r.PartitionChange(0, topic_id, leader=NO_LEADER))
        late = await finding(s, "g")
        assert await errors(s, late) == [15]
        assert "no leader" in (late.result()[0].error_message or "")

    told(tmp_path, story)
