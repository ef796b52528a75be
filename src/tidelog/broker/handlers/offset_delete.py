"""OffsetDelete (API 47, v0): a group forgets how far it came in partitions (KIP-496)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidelog.broker.coordination.pending_call import PendingCall
from tidelog.core.coordination import TopicPartition
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.groups.requests import DeleteOffsets, DeleteOffsetsResponse
from tidelog.wire.protocol.schemas.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
)
from tidelog.wire.protocol.schemas.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from tidelog.broker.groups.group_calls import GroupCalls
    from tidelog.rpc import Call


def handle(groups: GroupCalls, call: Call) -> None:
    request = call.request
    assert isinstance(request, OffsetDeleteRequest), request
    deletion = Deletion(groups, request)
    asked = DeleteOffsets(request.group_id, tuple(deletion.partitions))
    token = PendingCall(call, deletion.deleted, deletion.refused)
    groups.ask_for_member(request.group_id, asked, token)


class Deletion:
    """One request, and the answer with a place for every partition."""

    __slots__ = ("_places", "_topics", "partitions")

    def __init__(self, groups: GroupCalls, request: OffsetDeleteRequest) -> None:
        self.partitions: list[TopicPartition] = []
        self._places: list[OffsetDeleteResponsePartition] = []
        """Where the result of each of `partitions` belongs."""
        self._topics = [
            OffsetDeleteResponseTopic(name=topic.name, partitions=list(self._take(groups, topic)))
            for topic in request.topics
        ]

    def deleted(self, response: DeleteOffsetsResponse) -> OffsetDeleteResponse:
        if response.error is not NO_ERROR:
            return self.refused(response.error)
        for place, error in zip(self._places, response.errors, strict=True):
            place.error_code = error
        return OffsetDeleteResponse(topics=self._topics)

    def refused(self, error: Error) -> OffsetDeleteResponse:
        for place in self._places:
            place.error_code = error
        return OffsetDeleteResponse(error_code=error, topics=self._topics)

    def _take(
        self, groups: GroupCalls, topic: OffsetDeleteRequestTopic
    ) -> Iterator[OffsetDeleteResponsePartition]:
        known = groups.metadata.image.topics.get(
            groups.metadata.image.topic_ids.get(topic.name, b"")
        )
        for each in topic.partitions:
            place = OffsetDeleteResponsePartition(partition_index=each.partition_index)
            if known is None or each.partition_index not in known.partitions:
                place.error_code = Error.UNKNOWN_TOPIC_OR_PARTITION
            else:
                self.partitions.append(TopicPartition(topic.name, each.partition_index))
                self._places.append(place)
            yield place
