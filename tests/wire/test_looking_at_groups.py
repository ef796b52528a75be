"""Listing, describing and deleting groups, classic ones and those of the consumer protocol."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from support.group_story import GROUP, TOPIC, GroupStory, group_story
from support.loopback import run
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.wire.protocol.schemas.consumer_group_describe_request import (
    ConsumerGroupDescribeRequest,
)
from tidelog.wire.protocol.schemas.consumer_group_describe_response import (
    ConsumerGroupDescribeResponse,
)
from tidelog.wire.protocol.schemas.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from tidelog.wire.protocol.schemas.consumer_group_heartbeat_response import (
    ConsumerGroupHeartbeatResponse,
)
from tidelog.wire.protocol.schemas.delete_groups_request import DeleteGroupsRequest
from tidelog.wire.protocol.schemas.delete_groups_response import DeleteGroupsResponse
from tidelog.wire.protocol.schemas.describe_groups_request import DescribeGroupsRequest
from tidelog.wire.protocol.schemas.describe_groups_response import DescribeGroupsResponse
from tidelog.wire.protocol.schemas.list_groups_request import ListGroupsRequest
from tidelog.wire.protocol.schemas.list_groups_response import ListGroupsResponse

Story = Callable[[GroupStory], Awaitable[None]]
NOT_ASKED = -(2**31)


def told(data: Path, story: Story, **settings: str) -> None:
    async def main() -> None:
        async with group_story(data, **settings) as s:
            await story(s)

    run(main)


async def heartbeat(
    s: GroupStory, version: int = 1, **given: object
) -> ConsumerGroupHeartbeatResponse:
    usual: dict[str, object] = {"group_id": "modern", "member_id": "m-1"}
    request = ConsumerGroupHeartbeatRequest(**{**usual, **given})
    return await s.ask(request, version, ConsumerGroupHeartbeatResponse)


async def joined(
    s: GroupStory, version: int = 1, **given: object
) -> ConsumerGroupHeartbeatResponse:
    usual: dict[str, object] = {
        "member_epoch": 0,
        "rebalance_timeout_ms": 10_000,
        "subscribed_topic_names": [TOPIC],
        "topic_partitions": [],
    }
    return await heartbeat(s, version, **{**usual, **given})


def test_the_settings_of_a_group_hold_for_its_members(tmp_path: Path) -> None:
    """`kafka-configs.sh --alter --group modern --add-config consumer.session.timeout.ms=…`."""

    async def story(s: GroupStory) -> None:
        first = await joined(s)
        assert (first.error_code, first.heartbeat_interval_ms) == (0, 5000)
        s.lone.commit(
            r.Config(r.RESOURCE_GROUP, "modern", "consumer.session.timeout.ms", "60000"),
            r.Config(r.RESOURCE_GROUP, "modern", "consumer.heartbeat.interval.ms", "15000"),
        )
        later = await heartbeat(s, member_epoch=1)
        assert (later.error_code, later.heartbeat_interval_ms) == (0, 15_000)
        s.lone.pass_time(59_999)
        assert (await heartbeat(s, member_epoch=1)).error_code == 0
        s.lone.pass_time(60_100)
        assert (await heartbeat(s, member_epoch=1)).error_code == Error.UNKNOWN_MEMBER_ID

    told(tmp_path, story)


@pytest.mark.parametrize("version", [0, 1])
def test_the_life_of_a_consumer_in_the_new_protocol(tmp_path: Path, version: int) -> None:
    async def story(s: GroupStory) -> None:
        own = "" if version == 0 else "m-1"
        first = await joined(s, version, member_id=own)
        assert (first.error_code, first.member_epoch) == (0, 1)
        assert first.heartbeat_interval_ms == 5000
        member_id = first.member_id
        assert member_id
        assert own in member_id
        topic_id = s.lone.broker.image.topic_ids[TOPIC]
        assert first.assignment is not None
        assert [(each.topic_id, each.partitions) for each in first.assignment.topic_partitions] == [
            (topic_id, (0,))
        ]
        owned = [TopicPartitions(topic_id=topic_id, partitions=[0])]
        second = await heartbeat(
            s, version, member_id=member_id, member_epoch=1, topic_partitions=owned
        )
        assert (second.error_code, second.member_epoch) == (0, 1)
        third = await heartbeat(s, version, member_id=member_id, member_epoch=1)
        assert third.assignment is None, "nothing changed"
        asked = ConsumerGroupDescribeRequest(
            group_ids=["modern"], include_authorized_operations=True
        )
        (group,) = (await s.ask(asked, version, ConsumerGroupDescribeResponse)).groups
        assert (group.group_state, group.group_epoch, group.assignor_name) == (
            "Stable",
            1,
            "uniform",
        )
        assert group.authorized_operations > 0
        (member,) = group.members
        assert (member.client_id, member.client_host) == ("story", "/127.0.0.1")
        (share,) = member.assignment.topic_partitions
        assert (share.topic_name, share.topic_id, share.partitions) == (TOPIC, topic_id, (0,))
        assert member.target_assignment == member.assignment
        assert member.member_type == (1 if version else -1)

        assert (await heartbeat(s, version, member_id=member_id, member_epoch=7)).error_code == 110
        left = await heartbeat(s, version, member_id=member_id, member_epoch=-1)
        assert (left.error_code, left.member_epoch) == (0, -1)
        assert await s.groups() == [("modern", "Empty")]

    told(tmp_path, story)


def test_a_heartbeat_that_makes_no_sense_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        nameless = await joined(s, member_id="")
        assert nameless.error_code == 42
        assert "member_id" in (nameless.error_message or "")
        assert (await joined(s, group_id="")).error_code == 24
        assert (await heartbeat(s, member_epoch=3)).error_code == 69
        regex = await joined(s, subscribed_topic_names=None, subscribed_topic_regex="(")
        assert regex.error_code == 128
        assert "(" in (regex.error_message or "")
        assert await s.groups() == []

    told(tmp_path, story)


def test_groups_are_listed_by_state_and_type(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        await s.member().enter()
        await joined(s)

        async def listed(version: int, **filters: list[str]) -> list[str]:
            answer = await s.ask(ListGroupsRequest(**filters), version, ListGroupsResponse)
            assert answer.error_code == 0
            return sorted(each.group_id for each in answer.groups)

        for version in range(6):
            assert await listed(version) == ["modern", GROUP]
        assert await listed(5, types_filter=["Classic"]) == [GROUP]
        assert await listed(5, types_filter=["consumer"]) == ["modern"]
        assert await listed(4, states_filter=["stable"]) == ["modern", GROUP]
        assert await listed(5, states_filter=["Empty"]) == []
        answer = await s.ask(ListGroupsRequest(), 5, ListGroupsResponse)
        assert {(each.group_id, each.protocol_type, each.group_type) for each in answer.groups} == {
            (GROUP, "consumer", "classic"),
            ("modern", "consumer", "consumer"),
        }

    told(tmp_path, story)


def test_a_group_that_is_not_there_is_dead_and_since_v6_an_error(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        await s.member().enter()
        await joined(s)
        names = ["unheard of", GROUP, "modern"]
        for version in range(7):
            asked = DescribeGroupsRequest(groups=names, include_authorized_operations=version >= 3)
            answer = await s.ask(asked, version, DescribeGroupsResponse)
            assert [each.group_id for each in answer.groups] == names
            states = [each.group_state for each in answer.groups]
            assert states == ["Dead", "Stable", "Dead"]
            missing = 69 if version == 6 else 0
            assert [each.error_code for each in answer.groups] == [missing, 0, missing]
            described = answer.groups[1]
            assert (described.authorized_operations == NOT_ASKED) == (version < 3)
            assert [each.member_metadata for each in described.members] == [b"papers"]
            assert bool(answer.groups[0].error_message) == (version == 6)

        asked = ConsumerGroupDescribeRequest(group_ids=[GROUP, "modern", "unheard of"])
        described_as_consumers = await s.ask(asked, 1, ConsumerGroupDescribeResponse)
        errors = [each.error_code for each in described_as_consumers.groups]
        assert errors == [69, 0, 69]

    told(tmp_path, story)


@pytest.mark.parametrize("version", range(3))
def test_only_groups_without_members_are_deleted(tmp_path: Path, version: int) -> None:
    async def story(s: GroupStory) -> None:
        await s.member().enter()
        await joined(s)
        await heartbeat(s, member_epoch=-1)
        names = [GROUP, "unheard of", "modern"]
        request = DeleteGroupsRequest(groups_names=names)
        answer = await s.ask(request, version, DeleteGroupsResponse)
        assert [(each.group_id, each.error_code) for each in answer.results] == [
            (GROUP, 68),
            ("unheard of", 69),
            ("modern", 0),
        ]
        assert await s.groups() == [(GROUP, "Stable")]

    told(tmp_path, story)


def test_many_groups_are_answered_one_by_one_also_by_who_does_not_coordinate(
    tmp_path: Path,
) -> None:
    """librdkafka does not survive an answer with fewer entries than it asked for."""

    async def story(s: GroupStory) -> None:
        s.lone.broker.coordination.close()
        names = ["a", "b"]
        deleted = await s.ask(DeleteGroupsRequest(groups_names=names), 2, DeleteGroupsResponse)
        assert [(each.group_id, each.error_code) for each in deleted.results] == [
            ("a", 16),
            ("b", 16),
        ]
        described = await s.ask(DescribeGroupsRequest(groups=names), 6, DescribeGroupsResponse)
        assert [(each.group_id, each.error_code) for each in described.groups] == [
            ("a", 16),
            ("b", 16),
        ]
        asked = ConsumerGroupDescribeRequest(group_ids=names)
        consumers = await s.ask(asked, 0, ConsumerGroupDescribeResponse)
        assert [(each.group_id, each.error_code) for each in consumers.groups] == [
            ("a", 16),
            ("b", 16),
        ]
        nobody = await s.ask(DescribeGroupsRequest(), 0, DescribeGroupsResponse)
        assert nobody.groups == []
        assert await s.groups() == []

    told(tmp_path, story)
