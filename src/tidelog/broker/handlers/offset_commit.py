"""OffsetCommit (API 8, v2–10): how far a group has come. By topic id since v10 (KIP-848).

Partitions that do not exist are refused one by one, and the others committed. How long offsets
are kept is a setting of the broker: what v2 to v4 wish for is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidelog.broker.coordination.pending_call import PendingCall
from tidelog.core.coordination import TopicPartition
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.groups.records import CommittedOffset
from tidelog.core.groups.requests import CommitOffsets, CommitResponse, NewOffset
from tidelog.wire.protocol.schemas.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.protocol.schemas.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from tidelog.broker.groups.group_calls import GroupCalls
    from tidelog.core.metadata.image import TopicState
    from tidelog.rpc import Call

FIRST_WITH_EPOCHS = 9
FIRST_BY_ID = 10


def handle(groups: GroupCalls, call: Call) -> None:
    request = call.request
    assert isinstance(request, OffsetCommitRequest), request
    commit = Commit(groups, call, request)
    if not commit.offsets:
        call.answer(commit.message())
        return
    asked = CommitOffsets(
        request.group_id,
        request.member_id,
        request.generation_id_or_member_epoch,
        request.group_instance_id,
        tuple(commit.offsets),
        knows_epochs=call.version >= FIRST_WITH_EPOCHS,
    )
    token = PendingCall(call, commit.committed, commit.refused)
    groups.ask(request.group_id, asked, token)


class Commit:
    """One request: what of it is committed, and the answer with a place for every partition."""

    __slots__ = ("_places", "_topics", "offsets")

    def __init__(self, groups: GroupCalls, call: Call, request: OffsetCommitRequest) -> None:
        self.offsets: list[NewOffset] = []
        self._places: list[OffsetCommitResponsePartition] = []
        """Where the result of each of `offsets` belongs."""
        by_id = call.version >= FIRST_BY_ID
        wall_ms = groups.host.clock.wall_ms()
        self._topics = [
            OffsetCommitResponseTopic(
                topic_id=topic.topic_id,
                name=topic.name,
                partitions=list(self._take(groups, topic, wall_ms, by_id=by_id)),
            )
            for topic in request.topics
        ]

    def message(self) -> OffsetCommitResponse:
        return OffsetCommitResponse(topics=self._topics)

    def committed(self, response: CommitResponse) -> OffsetCommitResponse:
        if response.error is not NO_ERROR:
            return self.refused(response.error)
        for place, error in zip(self._places, response.errors, strict=True):
            place.error_code = error
        return self.message()

    def refused(self, error: Error) -> OffsetCommitResponse:
        for place in self._places:
            place.error_code = error
        return self.message()

    def _take(
        self, groups: GroupCalls, topic: OffsetCommitRequestTopic, wall_ms: int, *, by_id: bool
    ) -> Iterator[OffsetCommitResponsePartition]:
        image = groups.metadata.image
        known = image.topics.get(topic.topic_id if by_id else image.topic_ids.get(topic.name, b""))
        for each in topic.partitions:
            place = OffsetCommitResponsePartition(partition_index=each.partition_index)
            if known is None and by_id:
                place.error_code = Error.UNKNOWN_TOPIC_ID
            elif known is None or each.partition_index not in known.partitions:
                place.error_code = Error.UNKNOWN_TOPIC_OR_PARTITION
            else:
                self.offsets.append(new_offset(known, each, wall_ms))
                self._places.append(place)
            yield place


def new_offset(topic: TopicState, given: OffsetCommitRequestPartition, wall_ms: int) -> NewOffset:
    value = CommittedOffset(
        given.committed_offset,
        given.committed_leader_epoch,
        given.committed_metadata or "",
        wall_ms,
    )
    return NewOffset(TopicPartition(topic.name, given.partition_index), value)
