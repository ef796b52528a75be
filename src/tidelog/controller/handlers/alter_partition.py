"""AlterPartition (56): a leader proposes in-sync sets (kraft.md §6.4)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.controller.open_request import expect
from tidelog.core import requests
from tidelog.core.requests import ControllerResponse, IsrMember, IsrProposal, IsrResult
from tidelog.core.types import NO_EPOCH, PartitionId
from tidelog.rpc import Call
from tidelog.wire.protocol.schemas import alter_partition_response as wire
from tidelog.wire.protocol.schemas.alter_partition_request import (
    AlterPartitionRequest,
    PartitionData,
)

if TYPE_CHECKING:
    from tidelog.controller.controller import ActiveController

FIRST_WITH_BROKER_EPOCHS = 3


def handle(controller: "ActiveController", call: Call) -> None:
    request = call.request
    assert isinstance(request, AlterPartitionRequest), request

    def finish(responses: Sequence[ControllerResponse]) -> None:
        response = expect(responses[0], requests.AlterPartitionResponse)
        call.answer(answer_to(request, response))

    controller.ask(call, [proposals_of(request, call.version)], finish)


def proposals_of(request: AlterPartitionRequest, version: int) -> requests.AlterPartitionRequest:
    proposals = tuple(
        IsrProposal(
            PartitionId(bytes(topic.topic_id), each.partition_index),
            each.leader_epoch,
            each.partition_epoch,
            members_of(each, version),
            each.leader_recovery_state,
        )
        for topic in request.topics
        for each in topic.partitions
    )
    return requests.AlterPartitionRequest(request.broker_id, request.broker_epoch, proposals)


def members_of(partition: PartitionData, version: int) -> tuple[IsrMember, ...]:
    """Before version 3 a leader could not say which incarnation it means (KIP-903)."""
    if version < FIRST_WITH_BROKER_EPOCHS:
        return tuple(IsrMember(broker_id, NO_EPOCH) for broker_id in partition.new_isr)
    return tuple(
        IsrMember(each.broker_id, each.broker_epoch) for each in partition.new_isr_with_epochs
    )


def answer_to(
    request: AlterPartitionRequest, response: requests.AlterPartitionResponse
) -> wire.AlterPartitionResponse:
    """The results stand under the topics in the order in which they were asked for."""
    if response.error:
        return wire.AlterPartitionResponse(error_code=response.error)
    results = iter(response.results)
    topics = [
        wire.TopicData(
            topic_id=topic.topic_id,
            partitions=[partition_of(next(results)) for _ in topic.partitions],
        )
        for topic in request.topics
    ]
    return wire.AlterPartitionResponse(topics=topics)


def partition_of(result: IsrResult) -> wire.PartitionData:
    return wire.PartitionData(
        partition_index=result.partition.partition,
        error_code=result.error,
        leader_id=result.leader,
        leader_epoch=result.leader_epoch,
        isr=list(result.isr),
        leader_recovery_state=result.leader_recovery_state,
        partition_epoch=result.partition_epoch,
    )
