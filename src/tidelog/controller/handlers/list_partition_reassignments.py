"""ListPartitionReassignments (46): which of the requested partitions, or of all, are being moved.

Partitions that stay where they are, and topics that are not there, have no line.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tidelog.core.errors import Error
from tidelog.core.metadata.image import MetadataImage, PartitionState, TopicState
from tidelog.core.metadata.reassignment import assignment_of
from tidelog.rpc import Call
from tidelog.wire.protocol.schemas.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tidelog.wire.protocol.schemas.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from tidelog.controller.controller import ActiveController


def handle(controller: "ActiveController", call: Call) -> None:
    request = call.request
    assert isinstance(request, ListPartitionReassignmentsRequest), request
    if controller.active:
        call.answer(answer_to(request, controller.core.committed))
        return
    call.answer(
        ListPartitionReassignmentsResponse(
            error_code=Error.NOT_CONTROLLER, error_message=controller.why_not_active()
        )
    )


def answer_to(
    request: ListPartitionReassignmentsRequest, image: MetadataImage
) -> ListPartitionReassignmentsResponse:
    if request.topics is None:
        found = [moves_of(topic, topic.partitions.values()) for topic in image.topics.values()]
    else:
        found = [moves_of(*asked) for asked in asked_partitions(request.topics, image)]
    return ListPartitionReassignmentsResponse(topics=[each for each in found if each.partitions])


def asked_partitions(
    topics: Sequence[ListPartitionReassignmentsTopics], image: MetadataImage
) -> list[tuple[TopicState, list[PartitionState]]]:
    asked = []
    for each in topics:
        topic = image.topics.get(image.topic_ids.get(each.name, b""))
        if topic is not None:
            indexes = [index for index in each.partition_indexes if index in topic.partitions]
            asked.append((topic, [topic.partitions[index] for index in indexes]))
    return asked


def moves_of(topic: TopicState, partitions: Iterable[PartitionState]) -> OngoingTopicReassignment:
    return OngoingTopicReassignment(
        name=topic.name,
        partitions=[
            OngoingPartitionReassignment(
                partition_index=each.id.partition,
                replicas=list(each.replicas),
                adding_replicas=list(each.adding_replicas),
                removing_replicas=list(each.removing_replicas),
            )
            for each in partitions
            if assignment_of(each).in_progress
        ],
    )
