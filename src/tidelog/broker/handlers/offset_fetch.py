"""OffsetFetch (API 9, v1–10): how far groups have come. Many groups since v8, by topic id in v10.

Where an error stands decides whether a client sees it (wire.md gotcha 31): v1 has only partitions
to put it on, v2 to v7 one place for the whole answer, v8 and later one for each group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.coordination.pending_call import Gathering, PendingCall
from tidelog.core.coordination import TopicPartition
from tidelog.core.errors import NO_ERROR, Error
from tidelog.core.groups.requests import FetchedOffset, FetchOffsets, FetchOffsetsResponse
from tidelog.core.types import NO_EPOCH, NO_OFFSET
from tidelog.wire.protocol import ZERO_UUID
from tidelog.wire.protocol.schemas.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tidelog.wire.protocol.schemas.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from tidelog.broker.groups.group_calls import GroupCalls
    from tidelog.rpc import Call

FIRST_WITH_ERROR = 2
FIRST_WITH_GROUPS = 8
FIRST_BY_ID = 10


class AskedTopic(NamedTuple):
    """A topic as the client named it."""

    topic_id: bytes
    name: str | None
    """None if it was named by an id that nobody has."""
    partitions: tuple[int, ...]


def handle(groups: GroupCalls, call: Call) -> None:
    request = call.request
    assert isinstance(request, OffsetFetchRequest), request
    if call.version < FIRST_WITH_GROUPS:
        fetch_one(groups, call, request)
        return

    def finish(groups: list[OffsetFetchResponseGroup]) -> None:
        call.answer(OffsetFetchResponse(groups=groups))

    gathering = Gathering(len(request.groups), finish)
    for position, group in enumerate(request.groups):
        by_id = call.version >= FIRST_BY_ID
        topics = asked_topics(groups, group.topics, by_id=by_id)
        token = gathering.part(
            position,
            partial(
                group_answer, group, topics, groups.metadata.image.topic_ids if by_id else None
            ),
            partial(group_refused, group.group_id),
        )
        asked = FetchOffsets(
            group.group_id,
            group.member_id,
            group.member_epoch,
            wanted(topics),
            request.require_stable,
        )
        groups.ask(group.group_id, asked, token)


# -- one group, before v8


def fetch_one(groups: GroupCalls, call: Call, request: OffsetFetchRequest) -> None:
    topics = None
    if request.topics is not None:
        topics = [
            AskedTopic(ZERO_UUID, each.name, tuple(each.partition_indexes))
            for each in request.topics
        ]
    asked = FetchOffsets(request.group_id, None, NO_EPOCH, wanted(topics), request.require_stable)
    refused = partial(one_refused, call.version, topics or ())
    token = PendingCall(call, partial(one_answer, topics, refused), refused)
    groups.ask(request.group_id, asked, token)


def one_answer(
    topics: Sequence[AskedTopic] | None,
    refused: Callable[[Error], OffsetFetchResponse],
    response: FetchOffsetsResponse,
) -> OffsetFetchResponse:
    if response.error is not NO_ERROR:
        return refused(response.error)
    found = by_partition(response)
    shown = all_topics(response) if topics is None else topics
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name or "",
                partitions=[
                    old_partition(found[TopicPartition(topic.name or "", index)])
                    for index in topic.partitions
                ],
            )
            for topic in shown
        ]
    )


def one_refused(version: int, topics: Sequence[AskedTopic], error: Error) -> OffsetFetchResponse:
    if version >= FIRST_WITH_ERROR:
        return OffsetFetchResponse(error_code=error)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name or "",
                partitions=[
                    old_partition(nothing(topic, each, error)) for each in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


def old_partition(found: FetchedOffset) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=found.partition.partition,
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
        error_code=found.error,
    )


# -- many groups


def group_answer(
    group: OffsetFetchRequestGroup,
    topics: Sequence[AskedTopic] | None,
    ids: Mapping[str, bytes] | None,
    response: FetchOffsetsResponse,
) -> OffsetFetchResponseGroup:
    if response.error is not NO_ERROR:
        return group_refused(group.group_id, response.error)
    found = by_partition(response)
    return OffsetFetchResponseGroup(
        group_id=group.group_id,
        topics=[
            OffsetFetchResponseTopics(
                topic_id=topic.topic_id,
                name=topic.name or "",
                partitions=[new_partition(found, topic, index) for index in topic.partitions],
            )
            for topic in (all_topics(response, ids) if topics is None else topics)
        ],
    )


def group_refused(group_id: str, error: Error) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=group_id, error_code=error)


def new_partition(
    found: dict[TopicPartition, FetchedOffset], topic: AskedTopic, index: int
) -> OffsetFetchResponsePartitions:
    if topic.name is None:
        fetched = nothing(topic, index, Error.UNKNOWN_TOPIC_ID)
    else:
        fetched = found[TopicPartition(topic.name, index)]
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=fetched.offset,
        committed_leader_epoch=fetched.leader_epoch,
        metadata=fetched.metadata,
        error_code=fetched.error,
    )


# -- topics


def asked_topics(
    groups: GroupCalls, given: Sequence[OffsetFetchRequestTopics] | None, *, by_id: bool
) -> list[AskedTopic] | None:
    """None for all there are."""
    if given is None:
        return None
    topics = groups.metadata.image.topics
    asked = []
    for each in given:
        name: str | None = each.name
        if by_id:
            known = topics.get(each.topic_id)
            name = None if known is None else known.name
        asked.append(AskedTopic(each.topic_id, name, tuple(each.partition_indexes)))
    return asked


def wanted(topics: Sequence[AskedTopic] | None) -> tuple[TopicPartition, ...] | None:
    if topics is None:
        return None
    return tuple(
        TopicPartition(topic.name, index)
        for topic in topics
        if topic.name is not None
        for index in topic.partitions
    )


def all_topics(
    response: FetchOffsetsResponse, ids: Mapping[str, bytes] | None = None
) -> list[AskedTopic]:
    """What the group has offsets of. A client that wants ids is told only of topics with one."""
    indexes: dict[str, list[int]] = {}
    for each in response.offsets:
        indexes.setdefault(each.partition.topic, []).append(each.partition.partition)
    return [
        AskedTopic(ZERO_UUID if ids is None else ids[name], name, tuple(some))
        for name, some in indexes.items()
        if ids is None or name in ids
    ]


def by_partition(response: FetchOffsetsResponse) -> dict[TopicPartition, FetchedOffset]:
    return {each.partition: each for each in response.offsets}


def nothing(topic: AskedTopic, index: int, error: Error) -> FetchedOffset:
    return FetchedOffset(TopicPartition(topic.name or "", index), error, NO_OFFSET)
