"""A broker with an authorizer: what somebody gets who may do some things and not others."""

from pathlib import Path

import pytest

from support.batches import batch
from support.guarded import ALICE, Guarded
from support.lone_broker import LoneBroker, lone_broker
from support.loopback import run
from tidelog.core.errors import Error
from tidelog.core.security.acls import CLUSTER_NAME, Operation, PatternType, ResourceType
from tidelog.host.ports import NetworkError
from tidelog.wire.protocol.schemas.describe_cluster_request import DescribeClusterRequest
from tidelog.wire.protocol.schemas.describe_cluster_response import DescribeClusterResponse
from tidelog.wire.protocol.schemas.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
)
from tidelog.wire.protocol.schemas.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponse,
)
from tidelog.wire.protocol.schemas.fetch_request import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.protocol.schemas.fetch_response import FetchResponse
from tidelog.wire.protocol.schemas.metadata_request import MetadataRequest, MetadataRequestTopic
from tidelog.wire.protocol.schemas.metadata_response import MetadataResponse
from tidelog.wire.protocol.schemas.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.protocol.schemas.produce_response import ProduceResponse

TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
READ, WRITE, DESCRIBE, CREATE = (
    Operation.READ,
    Operation.WRITE,
    Operation.DESCRIBE,
    Operation.CREATE,
)
DENIED = Error.TOPIC_AUTHORIZATION_FAILED
SESSION_UNKNOWN = Error.FETCH_SESSION_ID_NOT_FOUND
APIS = (0, 1, 3, 60, 75)


def tell(tmp_path: Path, story, **settings: str) -> None:
    async def told() -> None:
        guarded = Guarded()
        async with lone_broker(tmp_path, APIS, wrap=guarded.of_broker, **settings) as s:
            ids = {name: s.create_topic(name) for name in ("mine", "yours")}
            await story(s, guarded, ids)

    run(told)


def produce(*topics: str, acks: int = -1, **given) -> ProduceRequest:
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name=topic, partition_data=[PartitionProduceData(index=0, records=batch(b"v"))]
            )
            for topic in topics
        ],
        **given,
    )


async def produced(s: LoneBroker, *topics: str, version: int = 9) -> dict[str, int]:
    answer = await s.ask(produce(*topics), version)
    assert isinstance(answer, ProduceResponse)
    return {each.name: each.partition_responses[0].error_code for each in answer.responses}


@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_of_one_produce_some_topics_are_written_and_some_refused(tmp_path: Path, version) -> None:
    async def story(s: LoneBroker, guarded: Guarded, _ids) -> None:
        assert await produced(s, "mine", version=version) == {"mine": DENIED}
        guarded.allow(WRITE, TOPIC, "mine")
        both = await produced(s, "mine", "yours", version=version)
        assert both == {"mine": Error.NONE, "yours": DENIED}
        assert s.broker.replicas.named("mine", 0).log.log_end_offset == 1
        assert s.broker.replicas.named("yours", 0).log.log_end_offset == 0
        assert {(each.name, each.operation) for each in guarded.refusals} == {
            ("mine", WRITE),
            ("yours", WRITE),
        }
        assert all(each.caller.principal == ALICE for each in guarded.refusals)

    tell(tmp_path, story)


def test_a_produce_without_an_answer_ends_the_connection(tmp_path: Path) -> None:
    async def story(s: LoneBroker, guarded: Guarded, _ids) -> None:
        guarded.allow(WRITE, TOPIC, "mine")
        with pytest.raises(NetworkError):
            await s.ask(produce("mine", "yours", acks=0), 9)

    tell(tmp_path, story)


# ---- Fetch


def fetch(ids, *topics: str, session: int = 0, epoch: int = 0) -> FetchRequest:
    wanted = [
        FetchTopic(
            topic=name,
            topic_id=ids[name],
            partitions=[FetchPartition(partition_max_bytes=1 << 20)],
        )
        for name in topics
    ]
    return FetchRequest(max_bytes=1 << 20, session_id=session, session_epoch=epoch, topics=wanted)


async def fetched(s: LoneBroker, request: FetchRequest, version: int = 12) -> FetchResponse:
    answer = await s.ask(request, version)
    assert isinstance(answer, FetchResponse)
    return answer


def codes(answer: FetchResponse) -> list[int]:
    return sorted(each.error_code for topic in answer.responses for each in topic.partitions)


@pytest.mark.parametrize("version", [12, 13, 18])
def test_a_refused_topic_is_never_part_of_a_fetch_session(tmp_path: Path, version) -> None:
    async def story(s: LoneBroker, guarded: Guarded, ids) -> None:
        assert codes(await fetched(s, fetch(ids, "mine"), version)) == [DENIED]
        guarded.allow(READ, TOPIC, "mine")
        both = await fetched(s, fetch(ids, "mine", "yours"), version)
        assert (both.session_id, codes(both)) == (0, [Error.NONE, DENIED])
        granted = guarded.allow(READ, TOPIC, "yours")
        both = await fetched(s, fetch(ids, "mine", "yours"), version)
        assert both.session_id
        assert codes(both) == [Error.NONE, Error.NONE]
        going_on = fetch(ids, session=both.session_id, epoch=1)
        assert (await fetched(s, going_on, version)).error_code == Error.NONE
        guarded.authorizer.remove(granted)
        late = fetch(ids, session=both.session_id, epoch=2)
        assert (await fetched(s, late, version)).error_code == SESSION_UNKNOWN

    tell(tmp_path, story)


def test_nobody_goes_on_with_the_session_of_somebody_else(tmp_path: Path) -> None:
    async def story(s: LoneBroker, guarded: Guarded, ids) -> None:
        guarded.allow(READ, TOPIC, "mine")
        begun = await fetched(s, fetch(ids, "mine"))
        guarded.principal = ALICE._replace(name="eve")
        stolen = fetch(ids, session=begun.session_id, epoch=1)
        assert (await fetched(s, stolen)).error_code == SESSION_UNKNOWN
        guarded.principal = ALICE
        own = fetch(ids, session=begun.session_id, epoch=1)
        assert (await fetched(s, own)).error_code == Error.NONE

    tell(tmp_path, story)


# ---- Metadata


async def described(s: LoneBroker, *topics, version: int = 12, **given):
    wanted = [MetadataRequestTopic(name=each) for each in topics] if topics else None
    if version == 0 and wanted is None:
        wanted = []
    answer = await s.ask(MetadataRequest(topics=wanted, **given), version)
    assert isinstance(answer, MetadataResponse)
    return answer


@pytest.mark.parametrize("version", [0, 1, 9, 12])
def test_only_topics_that_may_be_described_are_listed(tmp_path: Path, version) -> None:
    async def story(s: LoneBroker, guarded: Guarded, _ids) -> None:
        assert (await described(s, version=version)).topics == []
        guarded.allow(WRITE, TOPIC, "min", pattern=PatternType.PREFIXED)
        everything = await described(s, version=version)
        assert [each.name for each in everything.topics] == ["mine"]
        assert guarded.refusals == [], "nobody asked for the others by name"
        guarded.allow(DESCRIBE, TOPIC, "*")
        everything = await described(s, version=version)
        assert sorted(each.name for each in everything.topics) == ["mine", "yours"]

    tell(tmp_path, story)


@pytest.mark.parametrize("version", [0, 1, 9, 12])
def test_a_topic_that_is_asked_for_by_name_is_refused_by_name(tmp_path: Path, version) -> None:
    async def story(s: LoneBroker, guarded: Guarded, ids) -> None:
        alone = await described(s, "yours", version=version)
        assert [(each.name, each.error_code) for each in alone.topics] == [("yours", DENIED)]
        guarded.allow(READ, TOPIC, "mine")
        both = await described(s, "mine", "yours", version=version)
        assert {each.name: each.error_code for each in both.topics} == {
            "mine": Error.NONE,
            "yours": DENIED,
        }
        if version >= 12:
            asked = MetadataRequest(topics=[MetadataRequestTopic(topic_id=ids["yours"], name=None)])
            answer = await s.ask(asked, version)
            assert isinstance(answer, MetadataResponse)
            (refused,) = answer.topics
            assert (refused.error_code, refused.name, refused.topic_id) == (
                DENIED,
                None,
                ids["yours"],
            )

    tell(tmp_path, story)


def test_a_topic_is_not_created_for_somebody_who_may_not(tmp_path: Path) -> None:
    async def story(s: LoneBroker, guarded: Guarded, _ids) -> None:
        guarded.allow(WRITE, TOPIC, "*")
        answer = await described(s, "new", allow_auto_topic_creation=True)
        assert [(each.name, each.error_code) for each in answer.topics] == [("new", DENIED)]
        assert guarded.refusals[-1].operation == CREATE

    tell(tmp_path, story, auto_create_topics_enable="true")


def bits(*operations: Operation) -> int:
    return sum(1 << each for each in operations)


def test_callers_are_told_what_they_may_do(tmp_path: Path) -> None:
    async def story(s: LoneBroker, guarded: Guarded, _ids) -> None:
        guarded.allow(READ, TOPIC, "mine")
        asked = {
            "include_topic_authorized_operations": True,
            "include_cluster_authorized_operations": True,
        }
        answer = await described(s, "mine", version=10, **asked)
        assert answer.topics[0].topic_authorized_operations == bits(READ, DESCRIBE)
        assert answer.cluster_authorized_operations == 0
        guarded.allow(DESCRIBE, CLUSTER, CLUSTER_NAME)
        guarded.allow(Operation.ALTER_CONFIGS, CLUSTER, CLUSTER_NAME)
        cluster = await s.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 0)
        assert isinstance(cluster, DescribeClusterResponse)
        assert cluster.cluster_authorized_operations == bits(
            DESCRIBE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS
        )
        page = await s.ask(DescribeTopicPartitionsRequest(response_partition_limit=10), 0)
        assert isinstance(page, DescribeTopicPartitionsResponse)
        assert [(each.name, each.topic_authorized_operations) for each in page.topics] == [
            ("mine", bits(READ, DESCRIBE))
        ]

    tell(tmp_path, story)
