"""Topics, partitions, settings, elections and moves, as tools ask for them."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from support.controller_node import ControllerNode, StoryBroker, controller_node
from support.loopback import until
from tidelog.controller.controller import STEPS_AT_ONCE
from tidelog.core.errors import Error
from tidelog.core.metadata.records import RESOURCE_BROKER, RESOURCE_TOPIC
from tidelog.wire.protocol.schemas import alter_configs_request as replace
from tidelog.wire.protocol.schemas import alter_partition_reassignments_request as moves
from tidelog.wire.protocol.schemas import alter_partition_request as isr
from tidelog.wire.protocol.schemas import create_partitions_request as grow
from tidelog.wire.protocol.schemas import create_topics_request as new
from tidelog.wire.protocol.schemas import delete_topics_request as delete
from tidelog.wire.protocol.schemas import incremental_alter_configs_request as change
from tidelog.wire.protocol.schemas.alter_configs_response import AlterConfigsResponse
from tidelog.wire.protocol.schemas.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
)
from tidelog.wire.protocol.schemas.alter_partition_response import AlterPartitionResponse
from tidelog.wire.protocol.schemas.create_partitions_response import CreatePartitionsResponse
from tidelog.wire.protocol.schemas.create_topics_response import CreateTopicsResponse
from tidelog.wire.protocol.schemas.delete_topics_response import DeleteTopicsResponse
from tidelog.wire.protocol.schemas.elect_leaders_request import (
    ElectLeadersRequest,
    TopicPartitions,
)
from tidelog.wire.protocol.schemas.elect_leaders_response import ElectLeadersResponse
from tidelog.wire.protocol.schemas.incremental_alter_configs_response import (
    IncrementalAlterConfigsResponse,
)
from tidelog.wire.protocol.schemas.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tidelog.wire.protocol.schemas.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
)
from tidelog.wire.protocol.schemas.update_features_request import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
)
from tidelog.wire.protocol.schemas.update_features_response import UpdateFeaturesResponse

SET, DELETE, APPEND, SUBTRACT = range(4)
PREFERRED, UNCLEAN = 0, 1


def topic(name: str, partitions: int = -1, replicas: int = -1, **given: Any) -> new.CreatableTopic:
    return new.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replicas, **given
    )


def assigned(*by_index: tuple[int, list[int]]) -> dict[str, Any]:
    rows = [
        new.CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
        for index, brokers in by_index
    ]
    return {"assignments": rows}


def configured(**values: str | None) -> dict[str, Any]:
    rows = [
        new.CreatableTopicConfig(name=name.replace("_", "."), value=value)
        for name, value in values.items()
    ]
    return {"configs": rows}


async def create(
    node: ControllerNode, *topics: new.CreatableTopic, version: int = 7, **options: Any
) -> CreateTopicsResponse:
    request = new.CreateTopicsRequest(topics=list(topics), **options)
    answer = await node.ask(request, version, CreateTopicsResponse)
    assert [each.name for each in answer.topics] == [each.name for each in topics]
    return answer


# -- topics ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2, 8))
def test_topics_are_created_in_every_version_of_the_request(tell, version: int) -> None:
    async def story():
        async with controller_node(default_partitions=3) as node:
            await node.start_brokers(1, 2)
            answer = await create(
                node,
                topic("plain"),
                topic("placed", **assigned((1, [2]), (0, [1])), **configured(retention_ms="5")),
                version=version,
            )
            assert [each.error_code for each in answer.topics] == [0, 0]
            placed = node.image.topics[node.image.topic_ids["placed"]]
            assert [each.replicas for each in placed.partitions.values()] == [(1,), (2,)]
            assert node.image.topic_config("placed", "retention.ms") == "5"
            plain, other = answer.topics
            if version >= 5:
                assert (plain.num_partitions, plain.replication_factor) == (3, 1)
                sources = {each.name: (each.value, each.config_source) for each in other.configs}
                assert sources["retention.ms"] == ("5", 1)
                assert sources["min.insync.replicas"] == ("1", 3), "the cluster's, from the log"
                assert sources["retention.bytes"] == ("77", 4), "from the node's file"
                assert sources["preallocate"] == ("false", 5)
            if version >= 7:
                assert other.topic_id == placed.topic_id

    tell(story)


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (topic("bad name"), Error.INVALID_TOPIC_EXCEPTION),
        (topic("there"), Error.TOPIC_ALREADY_EXISTS),
        (topic("t", 0), Error.INVALID_PARTITIONS),
        (topic("t", 20_000), Error.POLICY_VIOLATION),
        (topic("t", 1, 9), Error.INVALID_REPLICATION_FACTOR),
        (topic("t", 1, **assigned((0, [1]))), Error.INVALID_REQUEST),
        (topic("t", **assigned((1, [1]))), Error.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", **assigned((0, [1]), (0, [1]))), Error.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", **assigned((0, [1, 9]))), Error.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", **configured(retention_mss="5")), Error.INVALID_CONFIG),
        (topic("t", **configured(retention_ms=None)), Error.INVALID_CONFIG),
    ],
)
def test_a_topic_that_cannot_be_does_not_stop_the_others(
    tell, wanted: new.CreatableTopic, error: Error
) -> None:
    async def story():
        async with controller_node() as node:
            await node.start_brokers(1)
            await create(node, topic("there"))
            first, refused, last = (await create(node, topic("a"), wanted, topic("b"))).topics
            assert (first.error_code, refused.error_code, last.error_code) == (0, error, 0)
            assert refused.error_message
            assert (refused.num_partitions, refused.replication_factor) == (-1, -1)
            assert list(node.image.topic_ids) == ["there", "a", "b"]

    tell(story)


def test_a_name_that_is_given_twice_is_created_neither_time(tell) -> None:
    async def story():
        async with controller_node() as node:
            await node.start_brokers(1)
            answer = await create(node, topic("t", 1), topic("u"), topic("t", 2))
            assert [each.error_code for each in answer.topics] == [42, 0, 42]
            assert list(node.image.topic_ids) == ["u"]
            assert (await create(node)).topics == []

    tell(story)


def test_validating_creates_nothing_and_tells_what_would_be(tell) -> None:
    async def story():
        async with controller_node() as node:
            await node.start_brokers(1)
            good, bad = (
                await create(node, topic("t", 4), topic("u", 1, 9), validate_only=True)
            ).topics
            assert (good.error_code, good.num_partitions, good.topic_id) == (0, 4, bytes(16))
            assert bad.error_code == Error.INVALID_REPLICATION_FACTOR
            assert not node.image.topic_ids

    tell(story)


def test_what_is_not_committed_in_time_is_told_so_and_the_rest_is_answered(tell) -> None:
    async def story():
        async with controller_node() as node:
            await node.start_brokers(1)
            node.quorum.held = True
            wanted = (topic("t"), topic("bad name"))
            asked = asyncio.ensure_future(create(node, *wanted, timeout_ms=200))
            await until(lambda: node.controller.core.pending_answers)
            node.pass_time(150)
            await asyncio.sleep(0)
            assert not asked.done()
            node.pass_time(100)
            late, _ = (await asked).topics
            assert late.error_code == Error.REQUEST_TIMED_OUT
            assert "200 ms" in late.error_message
            node.quorum.commit()
            assert "t" in node.image.topic_ids, "nobody can take it back"

    tell(story)


@pytest.mark.parametrize("version", [1, 5, 6])
def test_topics_are_deleted_by_name(tell, version: int) -> None:
    async def story():
        async with controller_node() as node:
            await node.start_brokers(1)
            await create(node, topic("t"), topic("u"))
            names = ["t", "none", "u", "u"]
            request = delete.DeleteTopicsRequest(
                topic_names=names,
                topics=[delete.DeleteTopicState(name=name) for name in names],
                timeout_ms=1000,
            )
            answer = await node.ask(request, version, DeleteTopicsResponse)
            assert [each.name for each in answer.responses] == names
            assert [each.error_code for each in answer.responses] == [0, 3, 42, 42]
            assert list(node.image.topic_ids) == ["u"]
            if version >= 5:
                assert "none" in answer.responses[1].error_message

    tell(story)


def test_topics_are_deleted_by_id(tell) -> None:
    async def story():
        async with controller_node() as node:
            await node.start_brokers(1)
            made = (await create(node, topic("t"), topic("u"))).topics
            one, other = (each.topic_id for each in made)
            wanted = [
                delete.DeleteTopicState(topic_id=one),
                delete.DeleteTopicState(topic_id=b"?" * 16),
                delete.DeleteTopicState(topic_id=other),
                delete.DeleteTopicState(name="u"),
                delete.DeleteTopicState(name="v", topic_id=b"!" * 16),
                delete.DeleteTopicState(),
            ]
            request = delete.DeleteTopicsRequest(topics=wanted, timeout_ms=1000)
            answer = await node.ask(request, 6, DeleteTopicsResponse)
            assert [each.error_code for each in answer.responses] == [0, 100, 42, 42, 42, 42]
            assert [(each.name, each.topic_id) for each in answer.responses[:3]] == [
                ("t", one),
                (None, b"?" * 16),
                ("u", other),
            ]
            assert list(node.image.topic_ids) == ["u"]

    tell(story)


@pytest.mark.parametrize("version", [0, 3])
def test_topics_grow(tell, version: int) -> None:
    async def story():
        async with controller_node() as node:
            await node.start_brokers(1, 2)
            await create(node, topic("t"), topic("u"))

            async def ask(*topics: grow.CreatePartitionsTopic, validate_only: bool = False):
                request = grow.CreatePartitionsRequest(
                    topics=list(topics), timeout_ms=1000, validate_only=validate_only
                )
                answer = await node.ask(request, version, CreatePartitionsResponse)
                assert [each.name for each in answer.results] == [each.name for each in topics]
                return [each.error_code for each in answer.results]

            third = grow.CreatePartitionsAssignment(broker_ids=[2])
            more = grow.CreatePartitionsTopic(name="t", count=3, assignments=None)
            assert await ask(more, validate_only=True) == [0]
            assert len(node.image.topics[node.image.topic_ids["t"]].partitions) == 1
            placed = grow.CreatePartitionsTopic(name="u", count=2, assignments=[third])
            unknown = grow.CreatePartitionsTopic(name="none", count=2)
            assert await ask(more, unknown, placed) == [0, 3, 0]
            assert len(node.image.topics[node.image.topic_ids["t"]].partitions) == 3
            assert node.image.topics[node.image.topic_ids["u"]].partitions[1].replicas == (2,)
            assert await ask(more) == [Error.INVALID_PARTITIONS]
            more.count = 5
            assert await ask(more, more) == [42, 42]

    tell(story)


# -- settings -------------------------------------------------------------------------------


async def alter(
    node: ControllerNode,
    *resources: tuple[int, str, list[tuple[str, int, str | None]]],
    validate_only: bool = False,
) -> list[tuple[int, str | None]]:
    request = change.IncrementalAlterConfigsRequest(
        resources=[
            change.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    change.AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in configs
                ],
            )
            for kind, name, configs in resources
        ],
        validate_only=validate_only,
    )
    answer = await node.ask(request, 1, IncrementalAlterConfigsResponse)
    told = [(each.resource_type, each.resource_name) for each in answer.responses]
    assert told == [(kind, name) for kind, name, _ in resources]
    return [(each.error_code, each.error_message) for each in answer.responses]


def test_settings_of_topics_change_one_by_one(tell) -> None:
    async def story():
        async with controller_node() as node:
            await node.start_brokers(1)
            await create(node, topic("t", **configured(retention_ms="5", segment_ms="9")))
            changes = [
                ("retention.ms", SET, "6"),
                ("segment.ms", DELETE, None),
                ("cleanup.policy", APPEND, "compact"),
            ]
            results = await alter(node, (RESOURCE_TOPIC, "t", changes), validate_only=True)
            assert results == [(0, None)]
            assert node.image.configs[RESOURCE_TOPIC, "t"]["retention.ms"] == "5"
            assert await alter(node, (RESOURCE_TOPIC, "t", changes)) == [(0, None)]
            after = {"retention.ms": "6", "cleanup.policy": "delete,compact"}
            assert node.image.configs[RESOURCE_TOPIC, "t"] == after
            subtracted = [("cleanup.policy", SUBTRACT, "delete")]
            assert await alter(node, (RESOURCE_TOPIC, "t", subtracted)) == [(0, None)]
            assert node.image.configs[RESOURCE_TOPIC, "t"]["cleanup.policy"] == "compact"

    tell(story)


def test_every_resource_has_its_own_result(tell) -> None:
    async def story():
        async with controller_node(elr_enabled=False) as node:
            await node.start_brokers(1)
            await create(node, topic("t"), topic("u"))
            rate = ("leader.replication.throttled.rate", SET, "1000")
            results = await alter(
                node,
                (RESOURCE_TOPIC, "none", [("retention.ms", SET, "6")]),
                (RESOURCE_BROKER, "1", [rate, ("producer.id.expiration.ms", SET, "2")]),
                (RESOURCE_BROKER, "2", [("node.id", SET, "3")]),
                (RESOURCE_BROKER, "", [("log.retention.ms", SET, "7")]),
                (RESOURCE_TOPIC, "t", [("retention.ms", APPEND, "6")]),
                (RESOURCE_TOPIC, "u", [("retention.ms", SET, None)]),
                (RESOURCE_TOPIC, "w", []),
                (RESOURCE_TOPIC, "w", []),
                (8, "1", [("root", SET, "DEBUG")]),
            )
            codes = [code for code, _ in results]
            assert codes == [3, 0, 42, 0, 40, 42, 42, 42, 42]
            assert all((message is None) == (code == 0) for code, message in results)
            assert "restart" in (results[2][1] or "")
            assert node.image.configs == {
                (RESOURCE_BROKER, "1"): {rate[0]: "1000", "producer.id.expiration.ms": "2"},
                (RESOURCE_BROKER, ""): {"log.retention.ms": "7"},
            }
            # The cluster's default is what a new topic is told to have.
            made = (await create(node, topic("x"))).topics[0].configs or ()
            assert ("7", 3) in [
                (each.value, each.config_source) for each in made if each.name == "retention.ms"
            ]

    tell(story)


def test_altering_the_old_way_replaces_everything(tell) -> None:
    async def story():
        async with controller_node() as node:
            await node.start_brokers(1)
            await create(node, topic("t", **configured(retention_ms="5", segment_ms="9")))

            async def ask(validate_only: bool, **values: str | None) -> list[int]:
                rows = [
                    replace.AlterableConfig(name=name.replace("_", "."), value=value)
                    for name, value in values.items()
                ]
                resources = [
                    replace.AlterConfigsResource(
                        resource_type=RESOURCE_TOPIC, resource_name=name, configs=rows
                    )
                    for name in ("t", "none")
                ]
                request = replace.AlterConfigsRequest(
                    resources=resources, validate_only=validate_only
                )
                answer = await node.ask(request, 2, AlterConfigsResponse)
                assert [each.resource_name for each in answer.responses] == ["t", "none"]
                return [each.error_code for each in answer.responses]

            assert await ask(True, retention_ms="6") == [0, 3]
            assert await ask(False, retention_ms="x") == [40, 3]
            assert await ask(False, retention_ms=None) == [42, 42]
            assert node.image.configs[RESOURCE_TOPIC, "t"]["segment.ms"] == "9"
            assert await ask(False, retention_bytes="6") == [0, 3]
            assert node.image.configs[RESOURCE_TOPIC, "t"] == {"retention.bytes": "6"}

    tell(story)


# -- leaders and moves ----------------------------------------------------------------------


async def rejoin(
    node: ControllerNode, leader: StoryBroker, topic_id: bytes, follower: StoryBroker
) -> None:
    """The follower has caught up with partition 0, and its leader says so."""
    partition = node.image.topics[topic_id].partitions[0]
    proposal = isr.PartitionData(
        partition_index=0,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        new_isr=[leader.id, follower.id],
    )
    request = isr.AlterPartitionRequest(
        broker_id=leader.id,
        broker_epoch=leader.broker_epoch,
        topics=[isr.TopicData(topic_id=topic_id, partitions=[proposal])],
    )
    answer = await node.ask(request, 2, AlterPartitionResponse)
    assert answer.topics[0].partitions[0].error_code == Error.NONE, answer


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_preferred_leader_gets_its_partitions_back(tell, version: int) -> None:
    async def story():
        async with controller_node() as node:
            first, second = await node.start_brokers(1, 2)
            made = await create(node, topic("t", **assigned((0, [1, 2]), (1, [2, 1]))))
            assert (await first.beat(want_fence=True)).is_fenced
            assert not (await first.beat()).is_fenced
            both = ElectLeadersRequest(
                election_type=PREFERRED,
                topic_partitions=[
                    TopicPartitions(topic="none", partitions=[0]),
                    TopicPartitions(topic="t", partitions=[1, 0, 7, 1]),
                ],
            )
            answer = await node.ask(both, version, ElectLeadersResponse)
            assert answer.error_code == 0
            told = [
                (each.topic, [(p.partition_id, p.error_code) for p in each.partition_result])
                for each in answer.replica_election_results
            ]
            assert told == [("none", [(0, 3)]), ("t", [(1, 84), (0, 80), (7, 3), (1, 84)])]

            topic_id = made.topics[0].topic_id or node.image.topic_ids["t"]
            await rejoin(node, second, topic_id, first)
            both.topic_partitions = [TopicPartitions(topic="t", partitions=[0])]
            answer = await node.ask(both, version, ElectLeadersResponse)
            (elected,) = answer.replica_election_results[0].partition_result
            assert (elected.error_code, elected.error_message) == (0, None)
            assert node.image.topics[topic_id].partitions[0].leader == 1

    tell(story)


def test_all_partitions_are_asked_with_null_and_only_the_needy_have_a_line(tell) -> None:
    async def story():
        async with controller_node(auto_leader_rebalance=False) as node:
            first, _ = await node.start_brokers(1, 2)
            await create(
                node,
                topic("t", **assigned((0, [2]), (1, [1]))),
                topic("u", **assigned((0, [2, 1]))),
            )
            assert (await first.beat(want_fence=True)).is_fenced
            everything = ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=None)
            answer = await node.ask(everything, 2, ElectLeadersResponse)
            told = [
                (each.topic, [(p.partition_id, p.error_code) for p in each.partition_result])
                for each in answer.replica_election_results
            ]
            assert told == [("t", [(1, Error.ELIGIBLE_LEADERS_NOT_AVAILABLE)])]
            wrong = ElectLeadersRequest(election_type=9, topic_partitions=None)
            answer = await node.ask(wrong, 2, ElectLeadersResponse)
            assert answer.error_code == Error.INVALID_REQUEST

    tell(story)


def test_partitions_move_and_the_moves_are_listed_until_they_end(tell) -> None:
    async def story():
        async with controller_node() as node:
            await node.start_brokers(1, 2, 3)
            await create(node, topic("t", **assigned((0, [1]), (1, [2]))))

            async def move(*wanted: tuple[str, int, list[int] | None], fixed: bool = False):
                request = moves.AlterPartitionReassignmentsRequest(
                    allow_replication_factor_change=not fixed,
                    topics=[
                        moves.ReassignableTopic(
                            name=name,
                            partitions=[
                                moves.ReassignablePartition(
                                    partition_index=index, replicas=replicas
                                )
                            ],
                        )
                        for name, index, replicas in wanted
                    ],
                )
                answer = await node.ask(request, 1, AlterPartitionReassignmentsResponse)
                assert answer.error_code == 0
                assert [each.name for each in answer.responses] == [name for name, _, _ in wanted]
                return [each.partitions[0].error_code for each in answer.responses]

            async def listed(topics: list[ListPartitionReassignmentsTopics] | None):
                request = ListPartitionReassignmentsRequest(topics=topics)
                answer = await node.ask(request, 0, ListPartitionReassignmentsResponse)
                return [
                    (each.name, p.partition_index, p.replicas, p.adding_replicas)
                    for each in answer.topics
                    for p in each.partitions
                ]

            assert await listed(None) == []
            results = await move(("t", 0, [3, 1]), ("none", 0, [1]), ("t", 9, [1]), ("t", 1, [9]))
            assert results == [0, 3, 3, Error.INVALID_REPLICA_ASSIGNMENT]
            assert await move(("t", 1, [2, 3]), fixed=True) == [Error.INVALID_REPLICATION_FACTOR]
            moving = [("t", 0, (3, 1), (3,))]
            assert await listed(None) == moving
            asked = ListPartitionReassignmentsTopics(name="t", partition_indexes=[1, 0, 9])
            missing = ListPartitionReassignmentsTopics(name="none", partition_indexes=[0])
            assert await listed([missing, asked]) == moving
            assert await listed([missing]) == []
            assert await move(("t", 0, None), ("t", 1, None)) == [
                0,
                Error.NO_REASSIGNMENT_IN_PROGRESS,
            ]
            assert await listed(None) == []

    tell(story)


# -- features, and asking the wrong node ----------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2])
def test_features_have_the_levels_they_were_created_with(tell, version: int) -> None:
    async def story():
        async with controller_node() as node:
            level = node.image.features["metadata.version"]

            async def ask(*wanted: tuple[str, int]) -> UpdateFeaturesResponse:
                updates = [
                    FeatureUpdateKey(feature=name, max_version_level=to) for name, to in wanted
                ]
                request = UpdateFeaturesRequest(feature_updates=updates)
                return await node.ask(request, version, UpdateFeaturesResponse)

            assert (await ask(("metadata.version", level))).error_code == 0
            refused = await ask(("metadata.version", level), ("warp.version", 1))
            assert refused.error_code == Error.INVALID_UPDATE_VERSION
            assert "warp.version" in refused.error_message
            if version < 2:
                assert [each.error_code for each in refused.results] == [0, 95]
            assert (await ask(("metadata.version", level + 1))).error_code == 95
            assert (await ask(("eligible.leader.replicas.version", 0))).error_code == 95

    tell(story)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_version_of_transactions_can_be_lowered_and_raised_again(tell, version: int) -> None:
    """`kafka-features.sh downgrade --feature transaction.version=1`."""
    feature = "transaction.version"
    up, down, unsafe = 1, 2, 3

    async def story():
        async with controller_node(features=((feature, 2),)) as node:

            async def ask(level: int, kind: int, **given: bool) -> UpdateFeaturesResponse:
                update = FeatureUpdateKey(feature=feature, max_version_level=level)
                if version == 0:
                    update.allow_downgrade = kind != up
                else:
                    update.upgrade_type = kind
                request = UpdateFeaturesRequest(feature_updates=[update], **given)
                return await node.ask(request, version, UpdateFeaturesResponse)

            def level() -> int:
                return node.image.features[feature]

            refused = await ask(1, up)
            assert (refused.error_code, level()) == (Error.INVALID_UPDATE_VERSION, 2)
            assert "ask for a downgrade" in refused.error_message
            if version > 0:
                assert (await ask(1, down, validate_only=True)).error_code == Error.NONE
                assert (await ask(1, 9)).error_code == Error.INVALID_UPDATE_VERSION
            assert level() == 2
            assert (await ask(1, down)).error_code == Error.NONE
            assert level() == 1
            assert "no downgrade" in (await ask(2, unsafe)).error_message
            assert (await ask(0, down)).error_code == Error.INVALID_UPDATE_VERSION
            assert (await ask(3, up)).error_code == Error.INVALID_UPDATE_VERSION
            assert level() == 1
            assert (await ask(2, up)).error_code == Error.NONE
            assert level() == 2

    tell(story)


def test_a_node_that_is_not_active_says_so_to_everybody(tell) -> None:
    async def story():
        async with controller_node() as node:
            node.quorum.depose()
            made = await create(node, topic("t"), topic("t"))
            assert {each.error_code for each in made.topics} == {Error.NOT_CONTROLLER}
            assert "node 7" in (made.topics[0].error_message or "")
            assert (await alter(node, (RESOURCE_TOPIC, "t", [])))[0][0] == Error.NOT_CONTROLLER
            for request, kind in (
                (moves.AlterPartitionReassignmentsRequest(), AlterPartitionReassignmentsResponse),
                (ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse),
                (UpdateFeaturesRequest(), UpdateFeaturesResponse),
                (ElectLeadersRequest(topic_partitions=None), ElectLeadersResponse),
            ):
                version = request.__versions__.last
                answer = await node.ask(request, version, kind)
                assert answer.error_code == Error.NOT_CONTROLLER, request

    tell(story)


def test_others_are_decided_between_the_topics_of_a_large_request(tell) -> None:
    """All topics of a request used to be decided in one piece."""

    async def story() -> None:
        async with controller_node() as node:
            await node.start_brokers(1, 2, 3)
            count = 10 * STEPS_AT_ONCE
            request = new.CreateTopicsRequest(
                topics=[topic(f"t{number}", 1, 1) for number in range(count)], timeout_ms=60_000
            )
            decided: list[int] = []

            def note() -> None:
                decided.append(len(node.image.topics))
                if decided[-1] < count:
                    node.network.soon(note)

            node.network.soon(note)
            answer = await node.ask(request, 7, CreateTopicsResponse)
            assert {each.error_code for each in answer.topics} == {Error.NONE}
            steps = [after - before for before, after in pairwise(decided)]
            assert max(steps) <= STEPS_AT_ONCE
            names = [each.name for each in answer.topics]
            gone = delete.DeleteTopicsRequest(
                topics=[delete.DeleteTopicState(name=name) for name in names], timeout_ms=60_000
            )
            deleted = await node.ask(gone, 6, DeleteTopicsResponse)
            assert {each.error_code for each in deleted.responses} == {Error.NONE}
            assert not node.image.topics

    tell(story)


def test_a_controller_that_is_deposed_in_the_middle_of_a_request_refuses_the_rest(tell) -> None:
    async def story() -> None:
        async with controller_node() as node:
            await node.start_brokers(1, 2, 3)
            count = 3 * STEPS_AT_ONCE
            request = new.CreateTopicsRequest(
                topics=[topic(f"t{number}", 1, 1) for number in range(count)], timeout_ms=60_000
            )

            def depose() -> None:
                if len(node.image.topics) < STEPS_AT_ONCE:
                    node.network.soon(depose)
                else:
                    node.quorum.commit()
                    node.quorum.depose()

            node.network.soon(depose)
            answer = await node.ask(request, 7, CreateTopicsResponse)
            refused = [each for each in answer.topics if each.error_code]
            assert {each.error_code for each in refused} == {Error.NOT_CONTROLLER}
            assert len(refused) >= STEPS_AT_ONCE

    tell(story)
