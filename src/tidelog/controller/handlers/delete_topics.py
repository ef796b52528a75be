"""DeleteTopics (20): by name, and from version 6 also by id."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tidelog.controller.handlers.items import repeated, said, twice
from tidelog.controller.open_request import Refused, Step, expect
from tidelog.core.errors import Error
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.requests import AdminResponse, ControllerResponse, DeleteTopicRequest
from tidelog.rpc import Call
from tidelog.wire.protocol import ZERO_UUID
from tidelog.wire.protocol.schemas.delete_topics_request import DeleteTopicsRequest
from tidelog.wire.protocol.schemas.delete_topics_response import (
    DeletableTopicResult,
    DeleteTopicsResponse,
)

if TYPE_CHECKING:
    from tidelog.controller.controller import ActiveController

FIRST_WITH_IDS = 6


class Doomed(NamedTuple):
    """A topic as it was asked for, and what else is known of it. "" and b"": nothing."""

    asked_name: str
    asked_id: bytes
    name: str
    topic_id: bytes


def handle(controller: "ActiveController", call: Call) -> None:
    request = call.request
    assert isinstance(request, DeleteTopicsRequest), request
    doomed = doomed_of(request, call.version, controller.image)

    def finish(responses: Sequence[ControllerResponse]) -> None:
        results = [
            result_of(topic, expect(response, AdminResponse))
            for topic, response in zip(doomed, responses, strict=True)
        ]
        call.answer(DeleteTopicsResponse(responses=results))

    controller.ask(call, steps_of(doomed), finish, timeout_ms=request.timeout_ms)


def doomed_of(request: DeleteTopicsRequest, version: int, image: MetadataImage) -> list[Doomed]:
    if version < FIRST_WITH_IDS:
        return [resolved(name, b"", image) for name in request.topic_names]
    return [resolved(each.name or "", id_of(each.topic_id), image) for each in request.topics]


def id_of(topic_id: bytes) -> bytes:
    return b"" if topic_id == ZERO_UUID else bytes(topic_id)


def resolved(asked_name: str, asked_id: bytes, image: MetadataImage) -> Doomed:
    topic = image.topics.get(asked_id)
    name = topic.name if topic is not None else asked_name
    return Doomed(asked_name, asked_id, name, asked_id or image.topic_ids.get(asked_name, b""))


def steps_of(doomed: Sequence[Doomed]) -> list[Step]:
    """A topic that is named twice is doubtful, also if once by its name and once by its id."""
    doubtful = repeated(topic.topic_id or topic.name for topic in doomed)
    return [
        Refused(twice(f"topic {topic.name or topic.topic_id.hex()}"))
        if (topic.topic_id or topic.name) in doubtful
        else step_of(topic)
        for topic in doomed
    ]


def step_of(topic: Doomed) -> Step:
    if topic.asked_name and topic.asked_id:
        reason = "a topic is given by its name or by its id, not by both"
        return Refused(AdminResponse(Error.INVALID_REQUEST, reason))
    if not topic.asked_name and not topic.asked_id:
        return Refused(AdminResponse(Error.INVALID_REQUEST, "a topic needs a name or an id"))
    return DeleteTopicRequest(topic.asked_name, topic.asked_id)


def result_of(topic: Doomed, response: AdminResponse) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=topic.name or (None if topic.asked_id else ""),
        topic_id=topic.topic_id or ZERO_UUID,
        error_code=response.error,
        error_message=said(response.message),
    )
