"""Admin requests that a broker passes on, to a controller that follows a script."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from support import loopback
from support.admin_story import AdminStory, admin_story, topic_id_of
from tidelog.broker.control import admin_settled
from tidelog.broker.handlers import forwarded
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.metadata.replay import replay
from tidelog.wire.protocol import API_BY_KEY, Message, encode
from tidelog.wire.protocol.schemas import (
    alter_client_quotas_request,
    alter_configs_request,
    alter_configs_response,
    alter_partition_reassignments_request,
    alter_partition_reassignments_response,
    alter_user_scram_credentials_request,
    create_acls_request,
    delete_acls_request,
    describe_quorum_request,
    describe_quorum_response,
    elect_leaders_request,
    elect_leaders_response,
    incremental_alter_configs_request,
    incremental_alter_configs_response,
    list_partition_reassignments_request,
    unregister_broker_request,
    unregister_broker_response,
    update_features_request,
    update_features_response,
)
from tidelog.wire.protocol.schemas.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tidelog.wire.protocol.schemas.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from tidelog.wire.protocol.schemas.create_topics_request import CreatableTopic, CreateTopicsRequest
from tidelog.wire.protocol.schemas.create_topics_response import (
    CreatableTopicResult,
    CreateTopicsResponse,
)
from tidelog.wire.protocol.schemas.delete_topics_request import (
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tidelog.wire.protocol.schemas.delete_topics_response import (
    DeletableTopicResult,
    DeleteTopicsResponse,
)

T = "t"
T_ID = topic_id_of(T)
CREATE_TOPICS, DELETE_TOPICS, DESCRIBE_QUORUM = 19, 20, 55

REQUESTS: dict[int, Message] = {
    CREATE_TOPICS: CreateTopicsRequest(topics=[CreatableTopic(name=T), CreatableTopic(name="u")]),
    DELETE_TOPICS: DeleteTopicsRequest(
        topics=[DeleteTopicState(name=T), DeleteTopicState(topic_id=b"u" * 16)],
        topic_names=[T, "u"],
    ),
    30: create_acls_request.CreateAclsRequest(creations=[create_acls_request.AclCreation()] * 2),
    31: delete_acls_request.DeleteAclsRequest(filters=[delete_acls_request.DeleteAclsFilter()] * 2),
    33: alter_configs_request.AlterConfigsRequest(
        resources=[
            alter_configs_request.AlterConfigsResource(resource_type=2, resource_name=name)
            for name in (T, "u")
        ]
    ),
    37: CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=T, count=3), CreatePartitionsTopic(name="u", count=3)]
    ),
    43: elect_leaders_request.ElectLeadersRequest(
        topic_partitions=[elect_leaders_request.TopicPartitions(topic=T, partitions=[0, 1])]
    ),
    44: incremental_alter_configs_request.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs_request.AlterConfigsResource(
                resource_type=2, resource_name=name
            )
            for name in (T, "u")
        ]
    ),
    45: alter_partition_reassignments_request.AlterPartitionReassignmentsRequest(
        topics=[
            alter_partition_reassignments_request.ReassignableTopic(
                name=T,
                partitions=[
                    alter_partition_reassignments_request.ReassignablePartition(partition_index=n)
                    for n in range(2)
                ],
            )
        ]
    ),
    46: list_partition_reassignments_request.ListPartitionReassignmentsRequest(),
    49: alter_client_quotas_request.AlterClientQuotasRequest(
        entries=[
            alter_client_quotas_request.EntryData(
                entity=[
                    alter_client_quotas_request.EntityData(entity_type="user", entity_name=name)
                ]
            )
            for name in (T, "u")
        ]
    ),
    51: alter_user_scram_credentials_request.AlterUserScramCredentialsRequest(
        deletions=[alter_user_scram_credentials_request.ScramCredentialDeletion(name=T)],
        upsertions=[alter_user_scram_credentials_request.ScramCredentialUpsertion(name="u")],
    ),
    DESCRIBE_QUORUM: describe_quorum_request.DescribeQuorumRequest(
        topics=[
            describe_quorum_request.TopicData(
                topic_name="__cluster_metadata",
                partitions=[describe_quorum_request.PartitionData(partition_index=0)],
            )
        ]
    ),
    57: update_features_request.UpdateFeaturesRequest(
        feature_updates=[update_features_request.FeatureUpdateKey(feature=f) for f in "ab"]
    ),
    64: unregister_broker_request.UnregisterBrokerRequest(broker_id=3),
}


async def while_time_passes(s: AdminStory, request: Message, version: int, by_ms: int) -> Message:
    asked = asyncio.ensure_future(s.ask(request, version))
    while not asked.done():
        await asyncio.sleep(0)
        if s.controller.asked:
            s.pass_time(by_ms)
    return await asked


def created(error: Error = Error.NONE) -> Callable[[Message], Message]:
    return lambda _: CreateTopicsResponse(
        topics=[CreatableTopicResult(name=T, topic_id=T_ID, error_code=error)]
    )


def test_a_topic_is_created_for_the_client_only_when_this_broker_sees_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            s.controller.script[CREATE_TOPICS] = created()
            request = CreateTopicsRequest(topics=[CreatableTopic(name=T, num_partitions=2)])
            asked = asyncio.ensure_future(s.ask(request, 2))
            await loopback.until(lambda: s.controller.asked)
            await s.other_traffic()
            assert not asked.done()
            s.create_topic(T, 2)
            answer = await asked
            assert isinstance(answer, CreateTopicsResponse)
            assert [(each.name, each.error_code) for each in answer.topics] == [(T, 0)]
            ((version, passed_on),) = s.controller.asked
            assert isinstance(passed_on, CreateTopicsRequest)
            assert (version, passed_on.topics[0].num_partitions) == (7, 2)

    loopback.run(story)


def test_what_was_refused_or_only_validated_is_not_waited_for(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            request = CreateTopicsRequest(topics=[CreatableTopic(name=T)])
            s.controller.script[CREATE_TOPICS] = created(Error.INVALID_PARTITIONS)
            refused = await s.ask(request, 7)
            request.validate_only = True
            s.controller.script[CREATE_TOPICS] = created()
            validated = await s.ask(request, 7)
            assert isinstance(refused, CreateTopicsResponse)
            assert isinstance(validated, CreateTopicsResponse)
            assert refused.topics[0].error_code == Error.INVALID_PARTITIONS
            assert validated.topics[0].error_code == Error.NONE

    loopback.run(story)


def test_an_answer_is_held_back_for_a_limited_time(tmp_path: Path) -> None:
    """A topic may be created and deleted again before we hear of it."""

    async def story() -> None:
        async with admin_story(tmp_path) as s:
            s.controller.script[CREATE_TOPICS] = created()
            request = CreateTopicsRequest(topics=[CreatableTopic(name=T)])
            answer = await while_time_passes(s, request, 7, by_ms=100)
            assert isinstance(answer, CreateTopicsResponse)
            assert answer.topics[0].error_code == Error.NONE
            assert s.broker.now_ms() >= forwarded.CATCH_UP_MS

    loopback.run(story)


@pytest.mark.parametrize("version", range(1, 7))
def test_topics_are_deleted_by_name_whatever_the_version(tmp_path: Path, version: int) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            s.create_topic(T)
            s.controller.script[DELETE_TOPICS] = lambda _: DeleteTopicsResponse(
                responses=[DeletableTopicResult(name=T, topic_id=T_ID)]
            )
            request = DeleteTopicsRequest(
                topics=[DeleteTopicState(name=T)], topic_names=[T], timeout_ms=5_000
            )
            asked = asyncio.ensure_future(s.ask(request, version))
            await loopback.until(lambda: s.controller.asked)
            await s.other_traffic()
            assert not asked.done()
            s.commit(r.RemoveTopic(T_ID))
            answer = await asked
            assert isinstance(answer, DeleteTopicsResponse)
            assert [(each.name, each.error_code) for each in answer.responses] == [(T, 0)]
            ((_, passed_on),) = s.controller.asked
            assert isinstance(passed_on, DeleteTopicsRequest)
            assert [each.name for each in passed_on.topics] == [T]

    loopback.run(story)


def test_a_question_about_the_quorum_is_passed_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            told = describe_quorum_response.DescribeQuorumResponse(
                topics=[
                    describe_quorum_response.TopicData(
                        topic_name="__cluster_metadata",
                        partitions=[describe_quorum_response.PartitionData(leader_id=9)],
                    )
                ]
            )
            s.controller.script[DESCRIBE_QUORUM] = lambda _: told
            assert await s.ask(REQUESTS[DESCRIBE_QUORUM], 2) == told

    loopback.run(story)


def test_without_a_controller_the_client_hears_it_within_its_own_time(tmp_path: Path) -> None:
    async def story() -> None:
        async with admin_story(tmp_path) as s:
            request = CreateTopicsRequest(
                topics=[CreatableTopic(name=T), CreatableTopic(name="u")], timeout_ms=700
            )
            answer = await while_time_passes(s, request, 7, by_ms=50)
            assert isinstance(answer, CreateTopicsResponse)
            assert [(each.name, each.error_code) for each in answer.topics] == [
                (T, Error.REQUEST_TIMED_OUT),
                ("u", Error.REQUEST_TIMED_OUT),
            ]
            assert "700 ms" in (answer.topics[0].error_message or "")

    loopback.run(story)


@pytest.mark.parametrize("key", forwarded.ROWS)
def test_a_refusal_has_one_entry_per_item_in_every_version(key: int) -> None:
    row = forwarded.ROWS[key]
    assert REQUESTS.keys() == forwarded.ROWS.keys()
    for version in range(API_BY_KEY[key].full.first, API_BY_KEY[key].full.last + 1):
        request = row.translated(REQUESTS[key])
        response = row.refused(request, Error.REQUEST_TIMED_OUT, "nobody")
        if key != DELETE_TOPICS or version >= 6:
            assert encode(response, version)
        assert response.__api_key__ == key
        text = repr(response)
        expected = {46: 1, 64: 1, 43: 3, 45: 3, 55: 2, 57: 3}.get(key, 2)
        assert text.count("error_code=<Error.REQUEST_TIMED_OUT: 7>") == expected


def test_a_request_without_a_sensible_timeout_gets_ours() -> None:
    assert forwarded.timeout_of(REQUESTS[64]) == forwarded.DEFAULT_TIMEOUT_MS
    assert forwarded.timeout_of(CreateTopicsRequest(timeout_ms=-1)) == forwarded.DEFAULT_TIMEOUT_MS
    assert forwarded.timeout_of(CreateTopicsRequest(timeout_ms=5)) == 5
    longest = CreateTopicsRequest(timeout_ms=2**31 - 1)
    assert forwarded.timeout_of(longest) == forwarded.TIMEOUT_MAX_MS


# -- what is looked for in the image


def image() -> MetadataImage:
    made = MetadataImage()
    for broker_id in (1, 2, 3):
        replay(made, r.RegisterBroker(broker_id, bytes([broker_id]) * 16, broker_id, fenced=False))
    replay(made, r.Topic(T, T_ID))
    replay(made, r.Partition(0, T_ID, (1, 2), (1, 2), leader=2))
    return made


def settles(key: int, request: Message, response: Message, *records: r.MetadataRecord) -> None:
    """Not before the records, and with the last of them."""
    made = image()
    settled = forwarded.ROWS[key].settled
    for record in records:
        assert not settled(made, request, response), record
        replay(made, record)
    assert settled(made, request, response)


def test_more_partitions_are_seen_by_their_number() -> None:
    settles(
        37,
        CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=T, count=2)]),
        CreatePartitionsResponse(results=[CreatePartitionsTopicResult(name=T)]),
        r.Partition(1, T_ID, (1,), (1,), leader=1),
    )


def incremental(*changes: tuple[str, int, str | None]) -> tuple[Message, Message]:
    request = incremental_alter_configs_request.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs_request.AlterConfigsResource(
                resource_type=r.RESOURCE_TOPIC,
                resource_name=T,
                configs=[
                    incremental_alter_configs_request.AlterableConfig(
                        name=name, config_operation=operation, value=value
                    )
                    for name, operation, value in changes
                ],
            )
        ]
    )
    response = incremental_alter_configs_response.IncrementalAlterConfigsResponse(
        responses=[
            incremental_alter_configs_response.AlterConfigsResourceResponse(
                resource_type=r.RESOURCE_TOPIC, resource_name=T
            )
        ]
    )
    return request, response


def topic_config(name: str, value: str | None) -> r.Config:
    return r.Config(r.RESOURCE_TOPIC, T, name, value)


def test_changed_settings_are_seen_by_their_values() -> None:
    both = "cleanup.policy"
    settles(
        44,
        *incremental(
            ("retention.ms", admin_settled.SET, "5"), (both, admin_settled.APPEND, "compact")
        ),
        topic_config("retention.ms", "5"),
        topic_config(both, "delete,compact"),
    )
    made = image()
    replay(made, topic_config(both, "delete,compact"))
    removal = incremental((both, admin_settled.SUBTRACT, "compact"))
    assert not admin_settled.incremental_alter_configs(made, *removal)  # type: ignore[arg-type]  # built above
    replay(made, topic_config(both, "delete"))
    assert admin_settled.incremental_alter_configs(made, *removal)  # type: ignore[arg-type]  # built above
    settles(44, *incremental(("retention.ms", admin_settled.DELETE, None)))


def test_replaced_settings_are_seen_as_a_whole() -> None:
    request = alter_configs_request.AlterConfigsRequest(
        resources=[
            alter_configs_request.AlterConfigsResource(
                resource_type=r.RESOURCE_TOPIC,
                resource_name=T,
                configs=[alter_configs_request.AlterableConfig(name="retention.ms", value="5")],
            )
        ]
    )
    response = alter_configs_response.AlterConfigsResponse(
        responses=[
            alter_configs_response.AlterConfigsResourceResponse(
                resource_type=r.RESOURCE_TOPIC, resource_name=T
            )
        ]
    )
    settles(33, request, response, topic_config("retention.ms", "5"))


def test_an_election_is_seen_by_the_leader() -> None:
    response = elect_leaders_response.ElectLeadersResponse(
        replica_election_results=[
            elect_leaders_response.ReplicaElectionResult(
                topic=T, partition_result=[elect_leaders_response.PartitionResult(partition_id=0)]
            )
        ]
    )
    request = elect_leaders_request.ElectLeadersRequest(election_type=0)
    settles(43, request, response, r.PartitionChange(0, T_ID, leader=1))


def test_a_reassignment_is_seen_when_it_is_under_way_and_when_it_is_cancelled() -> None:
    def asks_for(replicas: list[int] | None) -> Message:
        return alter_partition_reassignments_request.AlterPartitionReassignmentsRequest(
            topics=[
                alter_partition_reassignments_request.ReassignableTopic(
                    name=T,
                    partitions=[
                        alter_partition_reassignments_request.ReassignablePartition(
                            replicas=replicas
                        )
                    ],
                )
            ]
        )

    response = alter_partition_reassignments_response.AlterPartitionReassignmentsResponse(
        responses=[
            alter_partition_reassignments_response.ReassignableTopicResponse(
                name=T,
                partitions=[alter_partition_reassignments_response.ReassignablePartitionResponse()],
            )
        ]
    )
    begun = r.PartitionChange(
        0, T_ID, replicas=(3, 1, 2), adding_replicas=(3,), removing_replicas=(1,)
    )
    settles(45, asks_for([3, 2]), response, begun)
    made = image()
    replay(made, begun)
    assert not forwarded.ROWS[45].settled(made, asks_for(None), response)


def test_features_and_departed_brokers_are_seen() -> None:
    settles(
        57,
        update_features_request.UpdateFeaturesRequest(
            feature_updates=[
                update_features_request.FeatureUpdateKey(feature="f", max_version_level=1)
            ]
        ),
        update_features_response.UpdateFeaturesResponse(),
        r.FeatureLevel("f", 1),
    )
    settles(
        64,
        unregister_broker_request.UnregisterBrokerRequest(broker_id=3),
        unregister_broker_response.UnregisterBrokerResponse(),
        r.UnregisterBroker(3, 3),
    )
