"""What the programs that come with Kafka ask for, and what they are told."""

import logging
from pathlib import Path

import pytest

from support import loopback
from support.admin_story import AdminStory, admin_story
from support.batches import batch
from support.lone_broker import lone_broker
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.core.metadata.config_operations import APPEND, DELETE, SET
from tidelog.wire.protocol.schemas.create_acls_request import AclCreation, CreateAclsRequest
from tidelog.wire.protocol.schemas.create_acls_response import CreateAclsResponse
from tidelog.wire.protocol.schemas.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from tidelog.wire.protocol.schemas.delete_acls_response import DeleteAclsResponse
from tidelog.wire.protocol.schemas.describe_acls_request import DescribeAclsRequest
from tidelog.wire.protocol.schemas.describe_acls_response import DescribeAclsResponse
from tidelog.wire.protocol.schemas.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tidelog.wire.protocol.schemas.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from tidelog.wire.protocol.schemas.describe_producers_request import (
    DescribeProducersRequest,
    TopicRequest,
)
from tidelog.wire.protocol.schemas.describe_producers_response import DescribeProducersResponse
from tidelog.wire.protocol.schemas.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.wire.protocol.schemas.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


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
                assert all("No Authorizer" in str(each.error_message) for each in results)

    loopback.run(story)


def test_a_follower_tells_who_writes_to_its_partition(tmp_path: Path) -> None:
    """`kafka-transactions.sh describe-producers --broker-id`."""

    async def story() -> None:
        async with lone_broker(tmp_path, (61,)) as s:
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


# ---- settings of groups, subscriptions and loggers


async def settings_of(
    s: AdminStory, kind: int, name: str, *keys: str
) -> dict[str, DescribeConfigsResourceResult]:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=True
    )
    answer = await s.ask(request, 4)
    assert isinstance(answer, DescribeConfigsResponse)
    (result,) = answer.results
    assert result.error_code == Error.NONE, result.error_message
    assert not any(each.read_only or each.is_sensitive for each in result.configs)
    return {each.name: each for each in result.configs}


def test_a_group_shows_its_settings_and_where_they_come_from(tmp_path: Path) -> None:
    """`kafka-configs.sh --describe --group g`."""
    session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"

    async def story() -> None:
        async with admin_story(tmp_path, group_consumer_session_timeout_ms="46000") as s:
            s.commit(r.Config(GROUP, "g", heartbeat, "7000"))
            found = await settings_of(s, GROUP, "g")
            assert {name: (e.value, e.config_source) for name, e in found.items()} == {
                session: ("46000", 5),
                heartbeat: ("7000", 8),
            }
            assert [each.value for each in found[heartbeat].synonyms] == ["7000", "5000"]
            assert all(each.documentation and each.config_type == 3 for each in found.values())
            assert list(await settings_of(s, GROUP, "another", session)) == [session]

    loopback.run(story)


def test_a_subscription_to_client_metrics_is_shown_while_there_is_one(tmp_path: Path) -> None:
    """`kafka-client-metrics.sh --describe --name all`."""

    async def story() -> None:
        async with admin_story(tmp_path) as s:
            assert await settings_of(s, METRICS, "all") == {}
            s.commit(r.Config(METRICS, "all", "metrics", "org.apache.kafka."))
            found = await settings_of(s, METRICS, "all")
            assert {name: (e.value, e.config_source) for name, e in found.items()} == {
                "interval.ms": ("300000", 5),
                "match": ("", 5),
                "metrics": ("org.apache.kafka.", 7),
            }
            s.commit(r.Config(METRICS, "all", "metrics", None))
            assert await settings_of(s, METRICS, "all") == {}

    loopback.run(story)


async def altered(
    s: AdminStory,
    *resources: tuple[int, str, list[tuple[str, int, str | None]]],
    validate_only: bool = False,
) -> list[AlterConfigsResourceResponse]:
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in changes
                ],
            )
            for kind, name, changes in resources
        ],
        validate_only=validate_only,
    )
    answer = await s.ask(request, 1)
    assert isinstance(answer, IncrementalAlterConfigsResponse)
    return list(answer.responses)


@pytest.fixture
def logger_of_the_story():
    """A logger with a level of its own; what the story did to it is undone."""
    logger = logging.getLogger("tidelog.story")
    yield logger
    logger.setLevel(logging.NOTSET)


def test_levels_of_loggers_are_shown_set_and_forgotten(
    tmp_path: Path, logger_of_the_story: logging.Logger
) -> None:
    """`kafka-configs.sh --alter --broker-logger`."""
    name = logger_of_the_story.name

    async def story() -> None:
        async with admin_story(tmp_path) as s:

            async def level() -> str | None:
                return (await settings_of(s, LOGGER, "1", name))[name].value

            levels = await settings_of(s, LOGGER, "1")
            assert {"root", "tidelog", name} <= levels.keys()
            assert {each.config_source for each in levels.values()} == {6}
            inherited = await level()
            change = (LOGGER, "1", [(name, SET, "ERROR")])
            (checked,) = await altered(s, change, validate_only=True)
            assert (checked.error_code, await level()) == (Error.NONE, inherited)
            (done,) = await altered(s, change)
            assert (done.error_code, await level()) == (Error.NONE, "ERROR")
            assert logger_of_the_story.level == logging.ERROR
            (done,) = await altered(s, (LOGGER, "1", [(name, DELETE, None)]))
            assert (done.error_code, await level()) == (Error.NONE, inherited)
            assert s.controller.asked == []

    loopback.run(story)


def test_changes_of_loggers_that_may_not_be_are_refused_as_a_whole(
    tmp_path: Path, logger_of_the_story: logging.Logger
) -> None:
    name = logger_of_the_story.name

    async def story() -> None:
        async with admin_story(tmp_path) as s:
            refusals = []
            for broker, wrong in (
                ("1", ("tidelog.none", SET, "INFO")),
                ("1", (name, SET, "LOUD")),
                ("1", (name, APPEND, "INFO")),
                ("1", ("root", DELETE, None)),
                ("2", (name, SET, "INFO")),
            ):
                (result,) = await altered(s, (LOGGER, broker, [(name, SET, "DEBUG"), wrong]))
                assert result.error_message
                refusals.append(result.error_code)
            assert refusals == [Error.INVALID_CONFIG] * 2 + [Error.INVALID_REQUEST] * 3
            assert logger_of_the_story.level == logging.NOTSET

    loopback.run(story)


def test_settings_beside_those_of_loggers_go_to_the_controller(
    tmp_path: Path, logger_of_the_story: logging.Logger
) -> None:
    def refuse(request: object) -> IncrementalAlterConfigsResponse:
        assert isinstance(request, IncrementalAlterConfigsRequest)
        return IncrementalAlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(
                    error_code=Error.UNKNOWN_TOPIC_OR_PARTITION,
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                )
                for each in request.resources
            ]
        )

    async def story() -> None:
        async with admin_story(tmp_path) as s:
            s.controller.script[44] = refuse
            results = await altered(
                s,
                (TOPIC, "t", [("retention.ms", SET, "5")]),
                (LOGGER, "1", [(logger_of_the_story.name, SET, "WARN")]),
                (TOPIC, "u", [("retention.ms", SET, "5")]),
            )
            assert [(e.resource_type, e.resource_name, e.error_code) for e in results] == [
                (TOPIC, "t", Error.UNKNOWN_TOPIC_OR_PARTITION),
                (LOGGER, "1", Error.NONE),
                (TOPIC, "u", Error.UNKNOWN_TOPIC_OR_PARTITION),
            ]

    loopback.run(story)
