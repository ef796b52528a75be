"""What the programs that come with Kafka ask for, and what they are told."""

from pathlib import Path

from support import loopback
from support.admin_story import admin_story
from support.batches import batch
from support.lone_broker import lone_broker
from tidelog.broker.handlers import describe_producers
from tidelog.core.errors import Error
from tidelog.wire.protocol.schemas.create_acls_request import AclCreation, CreateAclsRequest
from tidelog.wire.protocol.schemas.create_acls_response import CreateAclsResponse
from tidelog.wire.protocol.schemas.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from tidelog.wire.protocol.schemas.delete_acls_response import DeleteAclsResponse
from tidelog.wire.protocol.schemas.describe_acls_request import DescribeAclsRequest
from tidelog.wire.protocol.schemas.describe_acls_response import DescribeAclsResponse
from tidelog.wire.protocol.schemas.describe_producers_request import (
    DescribeProducersRequest,
    TopicRequest,
)
from tidelog.wire.protocol.schemas.describe_producers_response import DescribeProducersResponse


def test_acls_are_answered_as_by_a_kafka_without_an_authorizer(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            for version in range(1, 4):
                described = await s.ask(DescribeAclsRequest(), version)
                assert isinstance(described, DescribeAclsResponse)
                created = await s.ask(
                    CreateAclsRequest(creations=[AclCreation(), AclCreation()]), version
                )
                assert isinstance(created, CreateAclsResponse)
                deleted = await s.ask(DeleteAclsRequest(filters=[DeleteAclsFilter()]), version)
                assert isinstance(deleted, DeleteAclsResponse)
                results = [described, *created.results, *deleted.filter_results]
                assert [each.error_code for each in results] == [Error.SECURITY_DISABLED] * 4
                assert all("no authorizer" in str(each.error_message) for each in results)

    loopback.run(story)


def test_a_follower_tells_who_writes_to_its_partition(tmp_path: Path) -> None:
    """`kafka-transactions.sh describe-producers --broker-id`."""

    async def story() -> None:
        async with lone_broker(tmp_path, {61: describe_producers.handle}) as s:
            s.create_topic("t", replicas=(2, 1), leader=2)
            hosted = s.broker.replicas.named("t", 0)
            assert hosted is not None
            assert hosted.leader is None
            copied = batch(b"a", b"b", producer=7, epoch=3, sequence=5)
            hosted.log.append_as_follower([copied])
            topics = [
                TopicRequest(name="t", partition_indexes=[0, 1]),
                TopicRequest(name="none", partition_indexes=[0]),
            ]
            answer = await s.ask(DescribeProducersRequest(topics=topics), 0)
            assert isinstance(answer, DescribeProducersResponse)
            here, missing = answer.topics[0].partitions
            assert here.error_code == Error.NONE
            (producer,) = here.active_producers
            assert (producer.producer_id, producer.producer_epoch) == (7, 0)
            assert (producer.last_sequence, producer.current_txn_start_offset) == (6, -1)
            assert missing.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION
            (nowhere,) = answer.topics[1].partitions
            assert nowhere.error_code == Error.UNKNOWN_TOPIC_OR_PARTITION

    loopback.run(story)
