"""What brokers ask of the controller, over real connections."""

import asyncio

import pytest

from support.controller_node import CLUSTER_ID, NODE_ID, StoryBroker, controller_node
from support.loopback import until
from tidelog.controller.controller import ENVELOPE
from tidelog.core.errors import Error
from tidelog.core.events import ControllerClaimed, ControllerRenounced
from tidelog.wire.protocol.schemas import alter_partition_request as isr
from tidelog.wire.protocol.schemas.allocate_producer_ids_request import AllocateProducerIdsRequest
from tidelog.wire.protocol.schemas.allocate_producer_ids_response import (
    AllocateProducerIdsResponse,
)
from tidelog.wire.protocol.schemas.alter_partition_response import AlterPartitionResponse
from tidelog.wire.protocol.schemas.api_versions_request import ApiVersionsRequest
from tidelog.wire.protocol.schemas.api_versions_response import ApiVersionsResponse
from tidelog.wire.protocol.schemas.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from tidelog.wire.protocol.schemas.create_topics_response import CreateTopicsResponse
from tidelog.wire.protocol.schemas.describe_cluster_request import DescribeClusterRequest
from tidelog.wire.protocol.schemas.describe_cluster_response import DescribeClusterResponse
from tidelog.wire.protocol.schemas.unregister_broker_request import UnregisterBrokerRequest
from tidelog.wire.protocol.schemas.unregister_broker_response import UnregisterBrokerResponse


async def create(node, name: str, *replicas: int) -> bytes:
    topic = CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))],
    )
    answer = await node.ask(CreateTopicsRequest(topics=[topic]), 7, CreateTopicsResponse)
    assert answer.topics[0].error_code == Error.NONE, answer
    return answer.topics[0].topic_id


def test_a_broker_registers_is_unfenced_by_heartbeats_and_leaves(tell) -> None:
    async def story():
        async with controller_node() as node:
            broker = StoryBroker(node, 1)
            registered = await broker.register(9092, 9094, rack="a")
            assert registered.error_code == Error.NONE
            known = node.broker(1)
            assert known.broker_epoch == registered.broker_epoch
            assert (known.rack, known.fenced) == ("a", True)
            assert [(each.name, each.port) for each in known.endpoints] == [
                ("L0", 9092),
                ("L1", 9094),
            ]
            broker.broker_epoch = registered.broker_epoch
            behind = await broker.beat(current_metadata_offset=0)
            assert (behind.is_caught_up, behind.is_fenced) == (False, True)
            beaten = await broker.beat()
            assert (beaten.is_caught_up, beaten.is_fenced) == (True, False)
            assert not node.broker(1).fenced
            assert (await broker.beat(want_shut_down=True)).should_shut_down
            assert node.broker(1).fenced

    tell(story)


def test_registrations_that_are_refused_say_why_in_their_code(tell) -> None:
    async def story():
        async with controller_node() as node:
            (broker,) = await node.start_brokers(1)
            rival = await broker.register(incarnation_id=b"r" * 16)
            assert rival.error_code == Error.DUPLICATE_BROKER_REGISTRATION
            stranger = await broker.register(broker_id=2, cluster_id="another")
            assert stranger.error_code == Error.INCONSISTENT_CLUSTER_ID
            twice = await broker.register(broker_id=2, log_dirs=[b"d" * 16, b"d" * 16])
            assert twice.error_code == Error.INVALID_REGISTRATION
            again = await broker.register(*(each.port for each in broker.listeners))
            assert (again.error_code, again.broker_epoch) == (Error.NONE, broker.broker_epoch)
            stale = await broker.beat(broker_epoch=broker.broker_epoch - 1)
            assert stale.error_code == Error.STALE_BROKER_EPOCH

    tell(story)


def test_a_silent_broker_is_fenced_when_its_lease_is_over(tell) -> None:
    async def story():
        async with controller_node(session_timeout_ms=1000) as node:
            _, alive = await node.start_brokers(1, 2)
            node.pass_time(600)
            await alive.beat()
            node.pass_time(600)
            await until(lambda: node.broker(1).fenced)
            assert not node.broker(2).fenced

    tell(story)


@pytest.mark.parametrize("version", [2, 3])
def test_a_leader_shrinks_and_expands_its_in_sync_replicas(tell, version: int) -> None:
    async def story():
        async with controller_node() as node:
            leader, follower = await node.start_brokers(1, 2)
            topic_id = await create(node, "t", 1, 2)

            async def propose(*members: StoryBroker, partition_epoch: int):
                asked = isr.PartitionData(
                    partition_index=0,
                    leader_epoch=0,
                    partition_epoch=partition_epoch,
                    new_isr=[each.id for each in members],
                    new_isr_with_epochs=[
                        isr.BrokerState(broker_id=each.id, broker_epoch=each.broker_epoch)
                        for each in members
                    ],
                )
                unknown = isr.PartitionData(partition_index=5)
                stranger = isr.TopicData(topic_id=b"?" * 16, partitions=[asked])
                topic = isr.TopicData(topic_id=topic_id, partitions=[unknown, asked])
                request = isr.AlterPartitionRequest(
                    broker_id=1, broker_epoch=leader.broker_epoch, topics=[stranger, topic]
                )
                answer = await node.ask(request, version, AlterPartitionResponse)
                assert answer.error_code == Error.NONE
                (none,), (missing, result) = (each.partitions for each in answer.topics)
                assert none.error_code == Error.UNKNOWN_TOPIC_ID
                assert (missing.partition_index, missing.error_code) == (5, 3)
                return result

            result = await propose(leader, partition_epoch=0)
            assert (result.error_code, result.isr, result.partition_epoch) == (0, (1,), 1)
            stale = await propose(leader, follower, partition_epoch=0)
            assert stale.error_code == Error.INVALID_UPDATE_VERSION
            result = await propose(leader, follower, partition_epoch=1)
            assert (result.leader_id, result.isr, result.partition_epoch) == (1, (1, 2), 2)
            follower.broker_epoch -= 1  # an incarnation that is not registered any more
            result = await propose(leader, follower, partition_epoch=2)
            assert result.error_code == (Error.NONE if version == 2 else Error.INELIGIBLE_REPLICA)

    tell(story)


def test_producer_ids_come_in_blocks_that_do_not_overlap(tell) -> None:
    async def story():
        async with controller_node() as node:
            (broker,) = await node.start_brokers(1)
            request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=broker.broker_epoch)
            blocks = [await node.ask(request, 0, AllocateProducerIdsResponse) for _ in range(2)]
            assert [(each.producer_id_start, each.producer_id_len) for each in blocks] == [
                (0, 1000),
                (1000, 1000),
            ]
            request.broker_epoch = 99
            refused = await node.ask(request, 0, AllocateProducerIdsResponse)
            assert refused.error_code == Error.STALE_BROKER_EPOCH

    tell(story)


def test_a_broker_that_will_not_come_back_is_unregistered_once(tell) -> None:
    async def story():
        async with controller_node() as node:
            await node.start_brokers(1, 2)
            request = UnregisterBrokerRequest(broker_id=1)
            done = await node.ask(request, 0, UnregisterBrokerResponse)
            assert (done.error_code, done.error_message) == (Error.NONE, None)
            assert list(node.image.brokers) == [2]
            again = await node.ask(request, 0, UnregisterBrokerResponse)
            assert again.error_code == Error.BROKER_ID_NOT_REGISTERED
            assert "broker 1" in again.error_message

    tell(story)


def test_an_answer_leaves_when_its_records_are_committed_and_not_before(tell) -> None:
    async def story():
        async with controller_node() as node:
            await node.start_brokers(1)
            node.quorum.held = True
            asked = asyncio.ensure_future(create(node, "t", 1))
            await until(lambda: node.controller.core.pending_answers)
            assert "t" not in node.image.topic_ids
            assert not asked.done()
            node.quorum.commit()
            assert await asked == node.image.topic_ids["t"]

    tell(story)


def test_a_lost_leadership_answers_everybody_that_waits(tell) -> None:
    async def story():
        async with controller_node() as node:
            (broker,) = await node.start_brokers(1)
            node.quorum.held = True
            asked = asyncio.ensure_future(broker.register(1, incarnation_id=b"\x01" * 16, rack="b"))
            await until(lambda: node.controller.core.pending_answers)
            node.quorum.depose()
            assert (await asked).error_code == Error.NOT_CONTROLLER
            assert (await broker.beat()).error_code == Error.NOT_CONTROLLER
            kinds = [type(event) for event in node.events]
            assert ControllerClaimed in kinds
            assert ControllerRenounced in kinds
            node.quorum.held = False
            node.quorum.elect()
            assert not (await broker.beat()).is_fenced

    tell(story)


def test_a_tool_hears_what_the_controller_speaks_and_who_is_active(tell) -> None:
    async def story():
        async with controller_node() as node:
            spoken = await node.ask(ApiVersionsRequest(), 4, ApiVersionsResponse)
            assert [each.api_key for each in spoken.api_keys] == sorted(
                {*node.controller.handlers, ENVELOPE}
            )
            assert {each.name: each.max_version_level for each in spoken.finalized_features} == (
                node.image.features
            )
            assert spoken.finalized_features_epoch >= 0
            older = await node.ask(ApiVersionsRequest(), 3, ApiVersionsResponse)
            assert all(each.min_version > 0 for each in older.supported_features)

            request = DescribeClusterRequest(endpoint_type=2)
            cluster = await node.ask(request, 2, DescribeClusterResponse)
            assert (cluster.cluster_id, cluster.controller_id) == (CLUSTER_ID, NODE_ID)
            assert [(each.broker_id, each.port) for each in cluster.brokers] == [(NODE_ID, 9093)]
            for kind, error in (
                (1, Error.MISMATCHED_ENDPOINT_TYPE),
                (9, Error.UNSUPPORTED_ENDPOINT_TYPE),
            ):
                request = DescribeClusterRequest(endpoint_type=kind)
                refused = await node.ask(request, 2, DescribeClusterResponse)
                assert refused.error_code == error
                assert refused.error_message

    tell(story)
