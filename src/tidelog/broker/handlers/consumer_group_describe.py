"""ConsumerGroupDescribe (API 69, v0–1): consumer groups, with their members' current and target
assignments.

A group of another kind is not found here. Java then asks DescribeGroups.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.answers import authorized_operations
from tidelog.broker.coordination.pending_call import Gathering
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.groups.records import TopicPartitions as Partitions
from tidelog.core.groups.requests import (
    DescribeConsumerGroup,
    DescribedConsumer,
    DescribedConsumerGroup,
)
from tidelog.wire.protocol.schemas.consumer_group_describe_request import (
    ConsumerGroupDescribeRequest,
)
from tidelog.wire.protocol.schemas.consumer_group_describe_response import (
    Assignment,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

if TYPE_CHECKING:
    from tidelog.broker.groups.group_calls import GroupCalls
    from tidelog.rpc import Call

CONSUMER = 1
"""The type of a member that speaks the consumer protocol."""


def handle(groups: GroupCalls, call: Call) -> None:
    request = call.request
    assert isinstance(request, ConsumerGroupDescribeRequest), request

    def finish(groups: list[DescribedGroup]) -> None:
        call.answer(ConsumerGroupDescribeResponse(groups=groups))

    operations = authorized_operations.on_group(asked=request.include_authorized_operations)
    gathering = Gathering(len(request.group_ids), finish)
    for position, group_id in enumerate(request.group_ids):
        token = gathering.part(
            position, partial(described, groups, group_id, operations), partial(refused, group_id)
        )
        groups.ask(group_id, DescribeConsumerGroup(group_id), token)


def described(
    groups: GroupCalls, group_id: str, operations: int, group: DescribedConsumerGroup
) -> DescribedGroup:
    if group.error is not NO_ERROR:
        return refused(group_id, group.error, group.message)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[member(groups, each) for each in group.members],
        authorized_operations=operations,
    )


def member(groups: GroupCalls, consumer: DescribedConsumer) -> Member:
    return Member(
        member_id=consumer.member_id,
        instance_id=consumer.instance_id,
        rack_id=consumer.rack_id,
        member_epoch=consumer.member_epoch,
        client_id=consumer.client.client_id,
        client_host=consumer.client.client_host,
        subscribed_topic_names=consumer.subscribed_topics,
        subscribed_topic_regex=consumer.subscribed_regex,
        assignment=assignment(groups, consumer.assignment),
        target_assignment=assignment(groups, consumer.target),
        member_type=CONSUMER,
    )


def assignment(groups: GroupCalls, partitions: Partitions) -> Assignment:
    """Without topics that were deleted a moment ago: they have no name to show."""
    topics = groups.metadata.image.topics
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=each, topic_name=topics[each].name, partitions=some)
            for each, some in partitions
            if each in topics
        ]
    )


def refused(group_id: str, error: Error, message: str | None = None) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error, error_message=message)
