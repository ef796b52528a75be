"""CreatePartitions (37): add partitions to topics."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.controller.handlers.items import repeated, said, twice
from tidelog.controller.open_request import Refused, Step, expect
from tidelog.core import requests
from tidelog.core.requests import AdminResponse, ControllerResponse
from tidelog.rpc import Call
from tidelog.wire.protocol.schemas.create_partitions_request import CreatePartitionsRequest
from tidelog.wire.protocol.schemas.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from tidelog.controller.controller import ActiveController


def handle(controller: "ActiveController", call: Call) -> None:
    request = call.request
    assert isinstance(request, CreatePartitionsRequest), request

    def finish(responses: Sequence[ControllerResponse]) -> None:
        call.answer(answer_to(request, responses))

    controller.ask(call, steps_of(request), finish, timeout_ms=request.timeout_ms)


def steps_of(request: CreatePartitionsRequest) -> list[Step]:
    doubtful = repeated(topic.name for topic in request.topics)
    return [
        Refused(twice(f"topic {topic.name}"))
        if topic.name in doubtful
        else requests.CreatePartitionsRequest(
            topic.name,
            topic.count,
            tuple(tuple(each.broker_ids) for each in topic.assignments or ()),
            request.validate_only,
        )
        for topic in request.topics
    ]


def answer_to(
    request: CreatePartitionsRequest, responses: Sequence[ControllerResponse]
) -> CreatePartitionsResponse:
    results = []
    for topic, response in zip(request.topics, responses, strict=True):
        error, message = expect(response, AdminResponse)
        results.append(
            CreatePartitionsTopicResult(
                name=topic.name, error_code=error, error_message=said(message)
            )
        )
    return CreatePartitionsResponse(results=results)
