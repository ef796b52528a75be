"""Committed offsets over TCP, in every form in which clients ask for them."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from support.batches import batch
from support.group_story import GROUP, TOPIC, GroupStory, group_story
from support.loopback import run
from tidelog.broker.coordination.internal_topics import CONSUMER_OFFSETS
from tidelog.core.metadata import records as r
from tidelog.wire.protocol.schemas.describe_groups_request import DescribeGroupsRequest
from tidelog.wire.protocol.schemas.describe_groups_response import DescribeGroupsResponse
from tidelog.wire.protocol.schemas.list_groups_request import ListGroupsRequest
from tidelog.wire.protocol.schemas.list_groups_response import ListGroupsResponse
from tidelog.wire.protocol.schemas.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.protocol.schemas.offset_commit_response import OffsetCommitResponse
from tidelog.wire.protocol.schemas.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.wire.protocol.schemas.offset_delete_response import OffsetDeleteResponse
from tidelog.wire.protocol.schemas.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tidelog.wire.protocol.schemas.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from tidelog.wire.protocol.schemas.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.protocol.schemas.produce_response import ProduceResponse
from tidelog.wire.records import Record, encode

Story = Callable[[GroupStory], Awaitable[None]]
NOWHERE = b"?" * 16
BY_ID = 10


def told(data: Path, story: Story, **settings: str) -> None:
    async def main() -> None:
        async with group_story(data, **settings) as s:
            await story(s)

    run(main)


def topic_id(s: GroupStory, name: str = TOPIC) -> bytes:
    return s.lone.broker.image.topic_ids.get(name, NOWHERE)


async def commit(
    s: GroupStory,
    offsets: Mapping[tuple[str, int], int],
    version: int = 9,
    *,
    member: str = "",
    generation: int = -1,
    remark: str | None = None,
) -> list[int]:
    """The errors, in the order of the request."""
    request = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                topic_id=topic_id(s, name),
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offset,
                        committed_leader_epoch=5,
                        committed_metadata=remark,
                    )
                ],
            )
            for (name, index), offset in offsets.items()
        ],
    )
    answer = await s.ask(request, version, OffsetCommitResponse)
    shown = [(each.topic_id if version >= BY_ID else each.name) for each in answer.topics]
    named = [(topic_id(s, name) if version >= BY_ID else name) for name, _ in offsets]
    assert shown == named
    return [each.partitions[0].error_code for each in answer.topics]


async def fetch_group(
    s: GroupStory, version: int, *asked: tuple[str, int], group: str = GROUP
) -> OffsetFetchResponseGroup:
    """v8 and later. Everything there is if nothing is asked for."""
    topics = [
        OffsetFetchRequestTopics(name=name, topic_id=topic_id(s, name), partition_indexes=[index])
        for name, index in asked
    ]
    wanted = OffsetFetchRequestGroup(group_id=group, topics=topics or None)
    request = OffsetFetchRequest(groups=[wanted])
    (answer,) = (await s.ask(request, version, OffsetFetchResponse)).groups
    assert answer.group_id == group
    return answer


async def fetch_old(s: GroupStory, version: int, *asked: tuple[str, int]) -> OffsetFetchResponse:
    topics = [OffsetFetchRequestTopic(name=name, partition_indexes=[i]) for name, i in asked]
    request = OffsetFetchRequest(group_id=GROUP, topics=topics or None)
    return await s.ask(request, version, OffsetFetchResponse)


async def fetched(s: GroupStory, version: int, *asked: tuple[str, int]) -> list[int]:
    if version < 8:
        old = await fetch_old(s, version, *asked)
        assert old.error_code == 0
        return [each.partitions[0].committed_offset for each in old.topics]
    group = await fetch_group(s, version, *asked)
    assert group.error_code == 0
    return [each.partitions[0].committed_offset for each in group.topics]


@pytest.mark.parametrize("version", range(2, 11))
def test_what_is_committed_in_any_form_is_fetched_in_every_form(
    tmp_path: Path, version: int
) -> None:
    async def story(s: GroupStory) -> None:
        assert await commit(s, {(TOPIC, 0): 40 + version}, version, remark="so far") == [0]
        for form in range(1, 11):
            assert await fetched(s, form, (TOPIC, 0)) == [40 + version], f"v{form}"
            if form >= 2:
                assert await fetched(s, form) == [40 + version], f"all in v{form}"
        (partition,) = (await fetch_group(s, 9, (TOPIC, 0))).topics[0].partitions
        assert partition.metadata == "so far"
        assert partition.committed_leader_epoch == (5 if version >= 6 else -1)

    told(tmp_path, story)


@pytest.mark.parametrize("version", [2, 9, 10])
def test_partitions_that_do_not_exist_are_refused_and_the_others_committed(
    tmp_path: Path, version: int
) -> None:
    async def story(s: GroupStory) -> None:
        offsets = {("nowhere", 0): 1, (TOPIC, 7): 2, (TOPIC, 0): 3}
        unknown = 100 if version >= BY_ID else 3
        assert await commit(s, offsets, version) == [unknown, 3, 0]
        assert await fetched(s, 9) == [3]
        assert await commit(s, {("nowhere", 0): 1}, version) == [unknown]

    told(tmp_path, story)


def test_an_offset_that_nobody_committed_is_no_error(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        for version in (1, 2, 7, 8, 9, 10):
            assert await fetched(s, version, (TOPIC, 0)) == [-1]
        for version in (8, 9):
            assert await fetched(s, version, ("nowhere", 0)) == [-1]
        group = await fetch_group(s, 10, ("nowhere", 0), (TOPIC, 0))
        errors = [each.partitions[0].error_code for each in group.topics]
        assert (group.error_code, errors) == (0, [100, 0])

    told(tmp_path, story)


def test_one_answer_tells_of_many_groups_in_their_order(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        await commit(s, {(TOPIC, 0): 4})
        names = ["z", GROUP, "a"]
        wanted = [OffsetFetchRequestGroup(group_id=each, topics=None) for each in names]
        request = OffsetFetchRequest(groups=wanted)
        answer = await s.ask(request, 9, OffsetFetchResponse)
        assert [(each.group_id, len(each.topics)) for each in answer.groups] == [
            ("z", 0),
            (GROUP, 1),
            ("a", 0),
        ]
        nothing = await s.ask(OffsetFetchRequest(), 8, OffsetFetchResponse)
        assert nothing.groups == []

    told(tmp_path, story)


def test_who_is_no_member_of_the_generation_commits_nothing(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        member = s.member()
        await member.enter()
        offsets = {(TOPIC, 0): 9}
        assert await commit(s, offsets, member="nobody", generation=1) == [25]
        assert await commit(s, offsets, member=member.member_id, generation=0) == [22]
        assert await commit(s, offsets) == [25]
        assert await fetched(s, 9, (TOPIC, 0)) == [-1]
        assert await commit(s, offsets, member=member.member_id, generation=1) == [0]
        assert await fetched(s, 9, (TOPIC, 0)) == [9]

    told(tmp_path, story)


def test_a_remark_that_is_too_long_is_refused_with_its_offset(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        assert await commit(s, {(TOPIC, 0): 9}, remark="x" * 17) == [12]
        assert await fetched(s, 9, (TOPIC, 0)) == [-1]
        assert await commit(s, {(TOPIC, 0): 9}, remark="x" * 16) == [0]

    told(tmp_path, story, offset_metadata_max_bytes="16")


def test_offsets_are_deleted_one_by_one_and_with_their_topic(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        await commit(s, {(TOPIC, 0): 9})
        request = OffsetDeleteRequest(
            group_id=GROUP,
            topics=[
                OffsetDeleteRequestTopic(
                    name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
                )
                for name in ("nowhere", TOPIC)
            ],
        )
        answer = await s.ask(request, 0, OffsetDeleteResponse)
        errors = [each.partitions[0].error_code for each in answer.topics]
        assert (answer.error_code, errors) == (0, [3, 0])
        assert await fetched(s, 9, (TOPIC, 0)) == [-1]
        request.group_id = "unheard of"
        assert (await s.ask(request, 0, OffsetDeleteResponse)).error_code == 69
        request.group_id = ""
        assert (await s.ask(request, 0, OffsetDeleteResponse)).error_code == 24

        await commit(s, {(TOPIC, 0): 9})
        s.lone.commit(r.RemoveTopic(topic_id(s)))
        assert await fetched(s, 9, (TOPIC, 0)) == [-1]

    told(tmp_path, story)


def test_nobody_writes_to_the_log_of_a_coordinator(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        await commit(s, {(TOPIC, 0): 9})
        hosted = s.lone.broker.replicas.named(CONSUMER_OFFSETS, 0)
        assert hosted is not None
        before = hosted.log.log_end_offset
        data = PartitionProduceData(index=0, records=batch(b"forged"))
        topic = TopicProduceData(name=CONSUMER_OFFSETS, partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])
        answer = await s.ask(request, 9, ProduceResponse)
        (result,) = answer.responses[0].partition_responses
        assert (result.error_code, result.base_offset) == (17, -1)
        assert CONSUMER_OFFSETS in (result.error_message or "")
        assert hosted.log.log_end_offset == before

    told(tmp_path, story)


def test_every_form_says_in_its_own_place_that_somebody_else_coordinates(tmp_path: Path) -> None:
    async def story(s: GroupStory) -> None:
        s.lone.broker.coordination.close()
        assert await commit(s, {(TOPIC, 0): 9, ("nowhere", 0): 1}) == [16, 3]
        (topic,) = (await fetch_old(s, 1, (TOPIC, 0))).topics
        assert topic.partitions[0].error_code == 16
        for version in range(2, 8):
            assert (await fetch_old(s, version, (TOPIC, 0))).error_code == 16
        for version in range(8, 11):
            group = await fetch_group(s, version, (TOPIC, 0))
            assert (group.error_code, group.topics) == (16, [])

    told(tmp_path, story)


def test_while_the_log_cannot_be_read_nothing_is_denied(tmp_path: Path) -> None:
    """A consumer that were told "no offset" would begin at an end of the log."""

    async def story(s: GroupStory) -> None:
        await commit(s, {(TOPIC, 0): 9})
        hosted = s.lone.broker.replicas.named(CONSUMER_OFFSETS, 0)
        assert hosted is not None
        unreadable = encode([Record(0, 0, b"\0\1", b"\0\3")])  # an offset commit without a group
        hosted.log.append_as_leader(unreadable, hosted.replica.leader_epoch)
        for leader in (-1, 1):
            s.lone.commit(r.PartitionChange(0, hosted.partition.topic_id, leader=leader))
        assert (await fetch_group(s, 9, (TOPIC, 0))).error_code == 14
        assert await commit(s, {(TOPIC, 0): 10}) == [14]
        assert (await s.ask(ListGroupsRequest(), 5, ListGroupsResponse)).error_code == 14
        asked = DescribeGroupsRequest(groups=[GROUP, "other"])
        described = await s.ask(asked, 6, DescribeGroupsResponse)
        assert [each.error_code for each in described.groups] == [14, 14]

    told(tmp_path, story)
