"""DescribeTopicPartitions (API 75, v0): topics page by page, with eligible leader replicas.

Topics come in the order of their names. A page ends after a number of partitions, perhaps within
a topic; its cursor names the partition that the next page begins with (KIP-966).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.broker.answers import authorized_operations
from tidelog.broker.answers.neighbours import Neighbour, neighbours, offline_replicas, seen_leader
from tidelog.broker.coordination.internal_topics import INTERNAL_TOPICS
from tidelog.core.errors import Error
from tidelog.core.metadata.image import MetadataImage, PartitionState, TopicState
from tidelog.core.metadata.topic_names import check_topic_name
from tidelog.rpc import Call
from tidelog.wire.protocol.schemas.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
)
from tidelog.wire.protocol.schemas.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from tidelog.broker.control.local_metadata import LocalMetadata

PARTITIONS_MAX = 2000
"""Of one page, whatever a client asks for."""


def handle(metadata: LocalMetadata, call: Call) -> None:
    request = call.request
    assert isinstance(request, DescribeTopicPartitionsRequest), request
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        call.answer(refusal(request))
        return
    page = Page(
        metadata.image,
        neighbours(metadata.image, call.listener),
        min(max(request.response_partition_limit, 1), PARTITIONS_MAX),
    )
    names: Iterable[str] = {topic.name for topic in request.topics} or metadata.image.topic_ids
    for name in sorted(names):
        if cursor is not None and name < cursor.topic_name:
            continue
        starts_here = cursor is not None and name == cursor.topic_name
        first = cursor.partition_index if cursor is not None and starts_here else 0
        if not page.add(name, first):
            break
    call.answer(DescribeTopicPartitionsResponse(topics=page.topics, next_cursor=page.next_cursor))


def refusal(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """A cursor before the first partition: there is only room for an error per topic."""
    assert request.cursor is not None, request
    names = [topic.name for topic in request.topics] or [request.cursor.topic_name]
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=Error.INVALID_REQUEST, name=name)
            for name in names
        ]
    )


class Page:
    """One answer while it is filled."""

    __slots__ = ("_image", "_left", "_live", "next_cursor", "topics")

    def __init__(self, image: MetadataImage, live: dict[int, Neighbour], limit: int) -> None:
        self._image = image
        self._live = live
        self._left = limit
        self.topics: list[DescribeTopicPartitionsResponseTopic] = []
        self.next_cursor: Cursor | None = None

    def add(self, name: str, first: int) -> bool:
        """Describe a topic from this partition on; False if the page is full before its end."""
        topic = self._image.topics.get(self._image.topic_ids.get(name, b""))
        if topic is None:
            self.topics.append(_unknown(name))
            return True
        states = list(topic.partitions.values())[first:]
        if not self._left:
            self.next_cursor = Cursor(topic_name=name, partition_index=first)
            return False
        shown = states[: self._left]
        self._left -= len(shown)
        self.topics.append(self._described(topic, shown))
        if len(shown) < len(states):
            self.next_cursor = Cursor(topic_name=name, partition_index=first + len(shown))
            return False
        return True

    def _described(
        self, topic: TopicState, states: list[PartitionState]
    ) -> DescribeTopicPartitionsResponseTopic:
        return DescribeTopicPartitionsResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=[self._partition(state) for state in states],
            topic_authorized_operations=authorized_operations.on_topic(asked=True),
        )

    def _partition(self, state: PartitionState) -> DescribeTopicPartitionsResponsePartition:
        leader, error = seen_leader(self._image, state, self._live)
        return DescribeTopicPartitionsResponsePartition(
            error_code=error,
            partition_index=state.id.partition,
            leader_id=leader,
            leader_epoch=state.leader_epoch,
            replica_nodes=state.replicas,
            isr_nodes=state.isr,
            eligible_leader_replicas=state.elr,
            last_known_elr=state.last_known_elr,
            offline_replicas=offline_replicas(state, self._live),
        )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    known_form = name in INTERNAL_TOPICS or check_topic_name(name) is None
    error = Error.UNKNOWN_TOPIC_OR_PARTITION if known_form else Error.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(error_code=error, name=name)
