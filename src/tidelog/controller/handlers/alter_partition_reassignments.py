"""AlterPartitionReassignments (45): start, redirect or cancel moves of partitions (KIP-455)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.controller.handlers.items import said
from tidelog.controller.open_request import Step, expect
from tidelog.core.errors import Error
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.requests import AdminResponse, AlterReassignmentRequest, ControllerResponse
from tidelog.core.types import PartitionId
from tidelog.rpc import Call
from tidelog.wire.protocol.schemas.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
)
from tidelog.wire.protocol.schemas.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from tidelog.controller.controller import ActiveController


def handle(controller: "ActiveController", call: Call) -> None:
    request = call.request
    assert isinstance(request, AlterPartitionReassignmentsRequest), request
    if not controller.active:
        call.answer(
            AlterPartitionReassignmentsResponse(
                error_code=Error.NOT_CONTROLLER, error_message=controller.why_not_active()
            )
        )
        return

    def finish(responses: Sequence[ControllerResponse]) -> None:
        call.answer(answer_to(request, responses))

    controller.ask(call, steps_of(request, controller.image), finish, timeout_ms=request.timeout_ms)


def steps_of(request: AlterPartitionReassignmentsRequest, image: MetadataImage) -> list[Step]:
    return [
        AlterReassignmentRequest(
            PartitionId(image.topic_ids.get(topic.name, b""), each.partition_index),
            None if each.replicas is None else tuple(each.replicas),
            request.allow_replication_factor_change,
        )
        for topic in request.topics
        for each in topic.partitions
    ]


def answer_to(
    request: AlterPartitionReassignmentsRequest, responses: Sequence[ControllerResponse]
) -> AlterPartitionReassignmentsResponse:
    left = iter(responses)
    topics = []
    for topic in request.topics:
        partitions = []
        for each in topic.partitions:
            error, message = expect(next(left), AdminResponse)
            partitions.append(
                ReassignablePartitionResponse(
                    partition_index=each.partition_index,
                    error_code=error,
                    error_message=said(message),
                )
            )
        topics.append(ReassignableTopicResponse(name=topic.name, partitions=partitions))
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, responses=topics
    )
