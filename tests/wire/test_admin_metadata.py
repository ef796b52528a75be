"""Metadata, ApiVersions and the other descriptions of a cluster, asked for over sockets."""

import asyncio
import warnings
from collections.abc import Iterable
from pathlib import Path

import pytest

from support import loopback
from support.admin_story import CLUSTER_ID, AdminStory, admin_story, topic_id_of
from support.broker_config import INSIDE
from tidelog.broker.handlers.metadata import AT_ONCE, CREATED_AT_ONCE_MAX, MetadataAnswers, View
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.metadata.image import TopicState
from tidelog.wire.protocol import ZERO_UUID
from tidelog.wire.protocol.schemas.api_versions_request import ApiVersionsRequest
from tidelog.wire.protocol.schemas.api_versions_response import ApiVersionsResponse
from tidelog.wire.protocol.schemas.create_topics_request import CreateTopicsRequest
from tidelog.wire.protocol.schemas.create_topics_response import (
    CreatableTopicResult,
    CreateTopicsResponse,
)
from tidelog.wire.protocol.schemas.describe_cluster_request import DescribeClusterRequest
from tidelog.wire.protocol.schemas.describe_cluster_response import DescribeClusterResponse
from tidelog.wire.protocol.schemas.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from tidelog.wire.protocol.schemas.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponse,
)
from tidelog.wire.protocol.schemas.metadata_request import MetadataRequest, MetadataRequestTopic
from tidelog.wire.protocol.schemas.metadata_response import MetadataResponse, MetadataResponseTopic

with warnings.catch_warnings():
    # It reads its schemas through a function that Python has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol.metadata import MetadataResponse as TheirMetadataResponse

NEWEST = 13
CREATE_TOPICS = 19


def named(*names: str, create: bool = False) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=create
    )


async def metadata(
    story: AdminStory, request: MetadataRequest, version: int = NEWEST, **where: str
) -> MetadataResponse:
    answer = await story.ask(request, version, **where)
    assert isinstance(answer, MetadataResponse), answer
    return answer


async def topics(
    story: AdminStory, request: MetadataRequest, version: int = NEWEST
) -> list[MetadataResponseTopic]:
    return list((await metadata(story, request, version)).topics)


def verdicts(found: list[MetadataResponseTopic]) -> list[tuple[str | None, int]]:
    return [(each.name, each.error_code) for each in found]


def test_null_asks_for_all_topics_and_an_empty_list_for_none(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            s.create_topic("b")
            s.create_topic("a")
            for version in range(1, NEWEST + 1):
                everything = await topics(s, MetadataRequest(topics=None), version)
                assert {each.name for each in everything} == {"a", "b"}
                assert await topics(s, MetadataRequest(topics=[]), version) == []
            assert len(await topics(s, MetadataRequest(topics=[]), 0)) == 2

    loopback.run(story)


def test_topics_are_found_by_name_and_by_id_and_answered_once_in_the_order_asked(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            known = s.create_topic("known")
            found = await topics(s, named("missing", "known", "bad name", "known"))
            assert verdicts(found) == [
                ("missing", Error.UNKNOWN_TOPIC_OR_PARTITION),
                ("known", Error.NONE),
                ("bad name", Error.INVALID_TOPIC_EXCEPTION),
            ]
            by_id = MetadataRequest(
                topics=[
                    MetadataRequestTopic(topic_id=known, name=None),
                    MetadataRequestTopic(topic_id=b"?" * 16, name=None),
                ]
            )
            found = await topics(s, by_id)
            assert verdicts(found) == [("known", Error.NONE), (None, Error.UNKNOWN_TOPIC_ID)]
            assert found[1].topic_id == b"?" * 16

    loopback.run(story)


def test_versions_without_lookup_by_id_go_by_the_name(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            s.create_topic("known")
            request = MetadataRequest(
                topics=[
                    MetadataRequestTopic(topic_id=b"?" * 16, name="known"),
                    MetadataRequestTopic(name=None),
                ],
                allow_auto_topic_creation=False,
            )
            for version in (10, 11):
                assert verdicts(await topics(s, request, version)) == [
                    ("known", Error.NONE),
                    ("", Error.INVALID_TOPIC_EXCEPTION),
                ]

    loopback.run(story)


def test_brokers_have_the_addresses_of_the_listener_the_question_came_through(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            s.register(4, fenced=True)
            outside = await metadata(s, named())
            inside = await metadata(s, named(), listener=INSIDE)
            assert [(b.node_id, b.host, b.port, b.rack) for b in outside.brokers] == [
                (n, f"plaintext-{n}", 9000 + n, f"rack-{n}") for n in (1, 2, 3)
            ]
            assert [b.host for b in inside.brokers] == ["inside-1", "inside-2", "inside-3"]
            assert (outside.cluster_id, outside.controller_id) == (CLUSTER_ID, 1)

    loopback.run(story)


def test_a_partition_without_a_leader_is_there_with_an_error(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            topic_id = s.create_topic("t", 2, replicas=(2, 3))
            s.commit(
                r.PartitionChange(0, topic_id, isr=(2,), leader=-1, elr=(3,)),
                r.PartitionChange(1, topic_id, leader=3),
                r.BrokerRegistrationChange(2, s.broker.image.brokers[2].broker_epoch, fenced=1),
            )
            (topic,) = await topics(s, named("t"))
            seen = [
                (p.partition_index, p.error_code, p.leader_id, p.leader_epoch, p.offline_replicas)
                for p in topic.partitions
            ]
            assert seen == [(0, Error.LEADER_NOT_AVAILABLE, -1, 1, (2,)), (1, 0, 3, 1, (2,))]

    loopback.run(story)


def test_a_leader_that_lacks_the_listener_is_out_of_reach(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            s.register(5, listeners=(INSIDE,))
            s.create_topic("t", replicas=(5,))
            for version, error in ((5, Error.LEADER_NOT_AVAILABLE), (6, Error.LISTENER_NOT_FOUND)):
                (topic,) = await topics(s, named("t"), version)
                (partition,) = topic.partitions
                assert (partition.error_code, partition.leader_id) == (error, -1)
            answer = await metadata(s, named("t"), listener=INSIDE)
            assert answer.topics[0].partitions[0].leader_id == 5

    loopback.run(story)


def test_internal_topics_are_marked_and_never_created_by_asking(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            s.create_topic("__consumer_offsets")
            s.create_topic("mine")
            found = await topics(
                s, named("__consumer_offsets", "mine", "__transaction_state", create=True)
            )
            assert [(t.name, t.error_code, t.is_internal) for t in found] == [
                ("__consumer_offsets", 0, True),
                ("mine", 0, False),
                ("__transaction_state", Error.UNKNOWN_TOPIC_OR_PARTITION, True),
            ]
            assert s.controller.asked == []

    loopback.run(story)


def test_operations_are_told_only_to_who_asks(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            s.create_topic("t")
            quiet = await metadata(s, named("t"), 10)
            request = named("t")
            request.include_cluster_authorized_operations = True
            request.include_topic_authorized_operations = True
            told = await metadata(s, request, 10)
            silence = -(2**31)
            assert quiet.cluster_authorized_operations == silence
            assert quiet.topics[0].topic_authorized_operations == silence
            assert told.cluster_authorized_operations > 0
            assert told.topics[0].topic_authorized_operations > 0

    loopback.run(story)


def test_an_answer_follows_the_metadata_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            topic_id = s.create_topic("t", replicas=(2, 3))
            (before,) = await topics(s, named("t"))
            s.commit(r.PartitionChange(0, topic_id, leader=3))
            (after,) = await topics(s, named("t"))
            leaders = [each.partitions[0].leader_id for each in (before, after)]
            epochs = [each.partitions[0].leader_epoch for each in (before, after)]
            assert (leaders, epochs) == ([2, 3], [0, 1])

    loopback.run(story)


@pytest.mark.parametrize("version", range(14))
def test_another_clients_parser_reads_our_answers(tmp_path: Path, version: int) -> None:
    async def story() -> None:
        async with admin_story(tmp_path, auto_create_topics_enable="false") as s:
            s.create_topic("t", 3, replicas=(1, 2, 3))
            body = await s.ask_raw(named("t", "missing"), version)
            theirs = TheirMetadataResponse.decode(body, version=version)
            assert [(each.name, each.error_code) for each in theirs.topics] == [
                ("t", 0),
                ("missing", 3),
            ]
            assert [each.leader_id for each in theirs.topics[0].partitions] == [1, 1, 1]
            assert [each.node_id for each in theirs.brokers] == [1, 2, 3]

    loopback.run(story)


# -- creation


def creating(s: AdminStory, error: Error = Error.NONE, *, commit: bool = True) -> None:
    """The controller answers, and its records reach our broker after the answer."""

    def create(request: object) -> CreateTopicsResponse:
        assert isinstance(request, CreateTopicsRequest)
        names = [each.name for each in request.topics]
        if error is Error.NONE and commit:
            s.broker.host.timers.after(1, lambda: [s.create_topic(name) for name in names])
        return CreateTopicsResponse(
            topics=[
                CreatableTopicResult(name=name, topic_id=topic_id_of(name), error_code=error)
                for name in names
            ]
        )

    s.controller.script[CREATE_TOPICS] = create


def test_a_missing_topic_is_created_and_waited_for(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            creating(s)
            asked = asyncio.ensure_future(topics(s, named("fresh", create=True)))
            await loopback.until(lambda: s.controller.asked)
            while not asked.done():
                s.pass_time(1)
                await asyncio.sleep(0)
            (topic,) = await asked
            assert (topic.error_code, topic.topic_id) == (0, topic_id_of("fresh"))
            assert [each.leader_id for each in topic.partitions] == [1]
            ((version, request),) = s.controller.asked
            assert isinstance(request, CreateTopicsRequest)
            (wish,) = request.topics
            assert (version, wish.num_partitions, wish.replication_factor) == (7, -1, -1)

    loopback.run(story)


@pytest.mark.parametrize("setting", ["true", "false"])
def test_nothing_is_created_unless_both_sides_want_it(tmp_path: Path, setting: str) -> None:
    async def story() -> None:
        async with admin_story(tmp_path, auto_create_topics_enable=setting) as s:
            wish = setting == "false"
            found = await topics(s, named("fresh", create=wish))
            assert verdicts(found) == [("fresh", Error.UNKNOWN_TOPIC_OR_PARTITION)]
            assert s.controller.asked == []

    loopback.run(story)


def test_a_topic_that_is_long_in_coming_is_answered_with_not_yet(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            creating(s, commit=False)
            asked = asyncio.ensure_future(topics(s, named("slow", create=True)))
            while not asked.done():
                await asyncio.sleep(0)
                if s.controller.asked:
                    s.pass_time(50)
            assert verdicts(await asked) == [("slow", Error.LEADER_NOT_AVAILABLE)]

    loopback.run(story)


def test_the_reason_why_a_topic_cannot_be_created_is_passed_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            creating(s, Error.INVALID_REPLICATION_FACTOR)
            found = await topics(s, named("fresh", create=True))
            assert verdicts(found) == [("fresh", Error.INVALID_REPLICATION_FACTOR)]

    loopback.run(story)


def test_one_request_creates_a_limited_number_of_topics(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            creating(s, Error.POLICY_VIOLATION)
            names = [f"t{number}" for number in range(130)]
            found = await topics(s, named(*names, create=True))
            errors = [each.error_code for each in found]
            created = [Error.POLICY_VIOLATION] * CREATED_AT_ONCE_MAX
            not_yet = [Error.LEADER_NOT_AVAILABLE] * (130 - CREATED_AT_ONCE_MAX)
            assert errors == created + not_yet

    loopback.run(story)


def test_others_are_answered_while_a_request_with_very_many_names_is(tmp_path: Path) -> None:
    """It used to be decoded and answered in one piece, and to create a hundred topics."""

    async def story() -> None:
        async with admin_story(tmp_path) as s:
            creating(s, Error.POLICY_VIOLATION)
            s.create_topic("known")
            names = [f"n{number:06d}" for number in range(20_000)]
            request = named("known", *names, "bad name", *names, create=True)
            asked = asyncio.ensure_future(topics(s, request))
            await s.arrived(3, 1)
            answered_meanwhile = 0
            while not asked.done():
                await s.ask(DescribeClusterRequest(), 0, INSIDE)
                answered_meanwhile += 1
            assert answered_meanwhile > 10
            found = await asked
            assert [each.name for each in found] == ["known", *names, "bad name"], "each once"
            assert [found[0].error_code, found[-1].error_code] == [
                Error.NONE,
                Error.INVALID_TOPIC_EXCEPTION,
            ]
            ((_, wish),) = s.controller.asked
            assert isinstance(wish, CreateTopicsRequest)
            assert len(wish.topics) == CREATED_AT_ONCE_MAX

    loopback.run(story)


def test_all_of_many_topics_are_told_of_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each as it is when its slice is put together."""
    names = [f"t{number}" for number in range(2 * AT_ONCE + 3)]
    told: list[int] = []
    original = MetadataAnswers._of_topics

    def counted(answers: MetadataAnswers, some: Iterable[TopicState], view: View) -> list[bytes]:
        fragments = original(answers, some, view)
        told.append(len(fragments))
        return fragments

    monkeypatch.setattr(MetadataAnswers, "_of_topics", counted)

    async def story() -> None:
        async with admin_story(tmp_path) as s:
            for name in names:
                s.create_topic(name)
            found = await topics(s, MetadataRequest(topics=None))
            assert [each.name for each in found] == names
            assert {each.error_code for each in found} == {Error.NONE}
            assert told == [AT_ONCE, AT_ONCE, 3]

    loopback.run(story)


# -- the other descriptions


def test_api_versions_lists_what_is_served_and_the_features_of_the_cluster(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            s.commit(
                r.FeatureLevel("metadata.version", 27),
                r.FeatureLevel("eligible.leader.replicas.version", 1),
            )
            supported = {}
            epochs = []
            for version in range(5):
                answer = await s.ask(ApiVersionsRequest(), version)
                assert isinstance(answer, ApiVersionsResponse)
                ranges = {k.api_key: (k.min_version, k.max_version) for k in answer.api_keys}
                assert ranges[3] == (0, 13)
                assert ranges[18] == (0, 4)
                assert not ranges.keys() & {62, 63, 71, 72}
                if version >= 3:
                    supported[version] = {each.name for each in answer.supported_features}
                    final = {f.name: f.max_version_level for f in answer.finalized_features}
                    assert final == {"metadata.version": 27, "eligible.leader.replicas.version": 1}
                    epochs.append(answer.finalized_features_epoch)
                    s.commit(r.NoOp())
            assert supported[3] == {"metadata.version"}
            assert supported[4] >= {"metadata.version", "kraft.version"}
            assert 0 <= epochs[0] < epochs[1]

    loopback.run(story)


def test_describe_cluster_shows_fenced_brokers_to_who_asks(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            s.register(4, fenced=True)
            for version, wish, shown in ((1, False, [1, 2, 3]), (2, True, [1, 2, 3, 4])):
                request = DescribeClusterRequest(include_fenced_brokers=wish)
                answer = await s.ask(request, version)
                assert isinstance(answer, DescribeClusterResponse)
                assert [each.broker_id for each in answer.brokers] == shown
                assert (answer.cluster_id, answer.controller_id) == (CLUSTER_ID, 1)
            assert [each.is_fenced for each in answer.brokers] == [False, False, False, True]
            for kind, error in (
                (2, Error.MISMATCHED_ENDPOINT_TYPE),
                (7, Error.UNSUPPORTED_ENDPOINT_TYPE),
            ):
                answer = await s.ask(DescribeClusterRequest(endpoint_type=kind), 2)
                assert isinstance(answer, DescribeClusterResponse)
                assert answer.error_code == error

    loopback.run(story)


async def pages(
    s: AdminStory, limit: int, *names: str
) -> list[list[tuple[str | None, int, list[int]]]]:
    found = []
    cursor = None
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names],
            response_partition_limit=limit,
            cursor=cursor,
        )
        answer = await s.ask(request, 0)
        assert isinstance(answer, DescribeTopicPartitionsResponse)
        found.append(
            [
                (t.name, t.error_code, [p.partition_index for p in t.partitions])
                for t in answer.topics
            ]
        )
        if answer.next_cursor is None:
            return found
        mark = answer.next_cursor
        cursor = Cursor(topic_name=mark.topic_name, partition_index=mark.partition_index)


def test_topics_come_page_by_page_in_the_order_of_their_names(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            s.create_topic("b", 3)
            s.create_topic("a", 2)
            assert await pages(s, 2) == [
                [("a", 0, [0, 1])],
                [("b", 0, [0, 1])],
                [("b", 0, [2])],
            ]
            assert await pages(s, 4, "b", "a", "x") == [
                [("a", 0, [0, 1]), ("b", 0, [0, 1])],
                [("b", 0, [2]), ("x", Error.UNKNOWN_TOPIC_OR_PARTITION, [])],
            ]

    loopback.run(story)


def test_a_page_shows_eligible_leaders_and_refuses_a_cursor_before_the_beginning(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            topic_id = s.create_topic("t", replicas=(2, 3))
            s.commit(r.PartitionChange(0, topic_id, isr=(2,), elr=(3,), last_known_elr=(3,)))
            answer = await s.ask(DescribeTopicPartitionsRequest(), 0)
            assert isinstance(answer, DescribeTopicPartitionsResponse)
            (partition,) = answer.topics[0].partitions
            assert partition.eligible_leader_replicas == (3,)
            assert partition.last_known_elr == (3,)
            request = DescribeTopicPartitionsRequest(
                cursor=Cursor(topic_name="t", partition_index=-1)
            )
            answer = await s.ask(request, 0)
            assert isinstance(answer, DescribeTopicPartitionsResponse)
            assert [each.error_code for each in answer.topics] == [Error.INVALID_REQUEST]
            assert answer.topics[0].topic_id == ZERO_UUID

    loopback.run(story)
