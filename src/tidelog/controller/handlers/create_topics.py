"""CreateTopics (19): new topics, each decided separately: a refusal does not stop the others."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tidelog.controller.handlers.items import repeated, said, twice
from tidelog.controller.open_request import Refused, Step, expect
from tidelog.controller.topic_settings import TopicSetting, topic_settings
from tidelog.core.errors import Error
from tidelog.core.requests import ControllerResponse, CreateTopicRequest, CreateTopicResponse
from tidelog.rpc import Call
from tidelog.wire.protocol import ZERO_UUID
from tidelog.wire.protocol.schemas.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from tidelog.wire.protocol.schemas.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from tidelog.controller.controller import ActiveController


def handle(controller: "ActiveController", call: Call) -> None:
    request = call.request
    assert isinstance(request, CreateTopicsRequest), request

    def finish(responses: Sequence[ControllerResponse]) -> None:
        results = [
            result_of(controller, topic, expect(response, CreateTopicResponse))
            for topic, response in zip(request.topics, responses, strict=True)
        ]
        call.answer(CreateTopicsResponse(topics=results))

    controller.ask(call, steps_of(request), finish, timeout_ms=request.timeout_ms)


def steps_of(request: CreateTopicsRequest) -> list[Step]:
    doubtful = repeated(topic.name for topic in request.topics)
    return [
        refuse(*twice(f"topic {topic.name}"))
        if topic.name in doubtful
        else step_of(topic, validate_only=request.validate_only)
        for topic in request.topics
    ]


def step_of(topic: CreatableTopic, *, validate_only: bool) -> Step:
    assignment = assignment_of(topic.assignments)
    if assignment is None:
        indexes = sorted(each.partition_index for each in topic.assignments)
        return refuse(
            Error.INVALID_REPLICA_ASSIGNMENT,
            f"partitions {indexes} are assigned; they must be numbered from 0 without gaps",
        )
    for config in topic.configs:
        if config.value is None:
            return refuse(Error.INVALID_CONFIG, f"{config.name} has no value; leave it out instead")
    return CreateTopicRequest(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        assignment,
        tuple((config.name, config.value or "") for config in topic.configs),
        validate_only,
    )


def assignment_of(
    given: Sequence[CreatableReplicaAssignment],
) -> tuple[tuple[int, ...], ...] | None:
    """The replicas by partition; None if the partitions are not 0, 1, 2 and so on."""
    by_index = {each.partition_index: tuple(each.broker_ids) for each in given}
    if len(by_index) != len(given) or any(index not in by_index for index in range(len(given))):
        return None
    return tuple(by_index[index] for index in range(len(given)))


def refuse(error: Error, message: str) -> Refused:
    return Refused(CreateTopicResponse(error, message))


def result_of(
    controller: "ActiveController", topic: CreatableTopic, response: CreateTopicResponse
) -> CreatableTopicResult:
    if response.error:
        return CreatableTopicResult(
            name=topic.name, error_code=response.error, error_message=said(response.message)
        )
    own = {config.name: config.value or "" for config in topic.configs}
    settings = topic_settings(own, controller.image, controller.facts.topic_defaults)
    return CreatableTopicResult(
        name=topic.name,
        topic_id=response.topic_id or ZERO_UUID,
        num_partitions=response.partitions,
        replication_factor=response.replication_factor,
        configs=list(config_entries(settings)),
    )


def config_entries(settings: Sequence[TopicSetting]) -> Iterator[CreatableTopicConfigs]:
    for name, value, source in settings:
        yield CreatableTopicConfigs(name=name, value=value, config_source=source)
