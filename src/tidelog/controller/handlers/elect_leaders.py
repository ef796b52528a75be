"""ElectLeaders (43): preferred or unclean elections, of named partitions or of all."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.controller.open_request import expect
from tidelog.core import requests
from tidelog.core.errors import Error
from tidelog.core.metadata.image import MetadataImage
from tidelog.core.requests import ControllerResponse
from tidelog.core.types import PartitionId
from tidelog.rpc import Call
from tidelog.wire.protocol.schemas.elect_leaders_request import ElectLeadersRequest
from tidelog.wire.protocol.schemas.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from tidelog.controller.controller import ActiveController

FIRST_WITH_ERROR_CODE = 1

REASONS = {
    Error.ELECTION_NOT_NEEDED: "its leader is the one that would be elected",
    Error.PREFERRED_LEADER_NOT_AVAILABLE: "its preferred replica is not in sync or not alive",
    Error.ELIGIBLE_LEADERS_NOT_AVAILABLE: "none of its replicas is alive",
    Error.UNKNOWN_TOPIC_OR_PARTITION: "there is no such partition",
}

Names = dict[bytes, str]


def handle(controller: "ActiveController", call: Call) -> None:
    request = call.request
    assert isinstance(request, ElectLeadersRequest), request
    image = controller.image

    def finish(responses: Sequence[ControllerResponse]) -> None:
        response = expect(responses[0], requests.ElectLeadersResponse)
        if response.error and call.version < FIRST_WITH_ERROR_CODE and not asked:
            call.close()  # version 0 has no place for an error without partitions
            return
        call.answer(answer_to(request, asked, response, names))

    asked = asked_partitions(request, image)
    names = {topic.topic_id: topic.name for topic in image.topics.values()}
    wish = requests.ElectLeadersRequest(request.election_type, asked)
    controller.ask(call, [wish], finish, timeout_ms=request.timeout_ms)


def asked_partitions(
    request: ElectLeadersRequest, image: MetadataImage
) -> tuple[PartitionId, ...] | None:
    """In the order of the request; the id of a topic that is not there is empty."""
    if request.topic_partitions is None:
        return None
    return tuple(
        PartitionId(image.topic_ids.get(topic.topic, b""), index)
        for topic in request.topic_partitions
        for index in topic.partitions
    )


def answer_to(
    request: ElectLeadersRequest,
    asked: tuple[PartitionId, ...] | None,
    response: requests.ElectLeadersResponse,
    names: Names,
) -> ElectLeadersResponse:
    if asked is None or request.topic_partitions is None:
        return ElectLeadersResponse(
            error_code=response.error, replica_election_results=by_topic(response, names)
        )
    # One line per partition that was asked for, also if it was asked for twice.
    errors = dict(response.results)
    outcomes = iter([result_of(each, errors.get(each, response.error)) for each in asked])
    return ElectLeadersResponse(
        error_code=response.error,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic, partition_result=[next(outcomes) for _ in topic.partitions]
            )
            for topic in request.topic_partitions
        ],
    )


def by_topic(response: requests.ElectLeadersResponse, names: Names) -> list[ReplicaElectionResult]:
    found: dict[bytes, list[PartitionResult]] = {}
    for partition, error in response.results:
        found.setdefault(partition.topic_id, []).append(result_of(partition, error))
    return [
        ReplicaElectionResult(topic=names[topic_id], partition_result=results)
        for topic_id, results in found.items()
    ]


def result_of(partition: PartitionId, error: Error) -> PartitionResult:
    return PartitionResult(
        partition_id=partition.partition, error_code=error, error_message=REASONS.get(error)
    )
