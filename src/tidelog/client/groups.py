"""Consumer groups from outside: who is in them, what they have committed, moving their offsets."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from tidelog.client.client import Client
from tidelog.client.coordinator import OF_GROUP, Coordinator, ask_every_broker
from tidelog.client.errors import KafkaError, check
from tidelog.core.errors import Error
from tidelog.wire.protocol import Message, ProtocolError, decode
from tidelog.wire.protocol.schemas import consumer_group_describe_response as consumer_response
from tidelog.wire.protocol.schemas import describe_groups_response as classic_response
from tidelog.wire.protocol.schemas import offset_commit_request as commit_request
from tidelog.wire.protocol.schemas import offset_fetch_request as fetch_request
from tidelog.wire.protocol.schemas.consumer_group_describe_request import (
    ConsumerGroupDescribeRequest,
)
from tidelog.wire.protocol.schemas.consumer_protocol_assignment import ConsumerProtocolAssignment
from tidelog.wire.protocol.schemas.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from tidelog.wire.protocol.schemas.delete_groups_request import DeleteGroupsRequest
from tidelog.wire.protocol.schemas.delete_groups_response import DeleteGroupsResponse
from tidelog.wire.protocol.schemas.describe_groups_request import DescribeGroupsRequest
from tidelog.wire.protocol.schemas.list_groups_request import ListGroupsRequest
from tidelog.wire.protocol.schemas.list_groups_response import ListGroupsResponse
from tidelog.wire.protocol.schemas.offset_commit_response import OffsetCommitResponse
from tidelog.wire.protocol.schemas.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

TopicPartition = tuple[str, int]
AnsweredTopic = OffsetFetchResponseTopic | OffsetFetchResponseTopics
M = TypeVar("M", bound=Message)

CLASSIC, CONSUMER = "classic", "consumer"
CONSUMER_PROTOCOL = "consumer"
"""The protocol type of groups that read topics; others (Connect's) assign something else."""
EMPTY, DEAD = "Empty", "Dead"
NO_GENERATION = -1
NO_OFFSET = -1
NO_NOTES: Mapping[TopicPartition, str] = {}


class ListedGroup(NamedTuple):
    group_id: str
    kind: str
    """CLASSIC, CONSUMER, or empty where the broker is too old to say."""
    state: str
    protocol_type: str
    coordinator: int


class GroupMember(NamedTuple):
    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    topics: tuple[str, ...]
    """What it subscribes to."""
    partitions: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...]
    """What it shall have; the same as `partitions` when nothing moves."""
    epoch: int | None
    """Of the member, with the consumer protocol alone."""


class GroupView(NamedTuple):
    group_id: str
    kind: str
    state: str
    coordinator: int
    assignor: str
    epoch: int | None
    """Of the group, with the consumer protocol alone."""
    members: tuple[GroupMember, ...]

    @property
    def owners(self) -> dict[TopicPartition, GroupMember]:
        return {where: member for member in self.members for where in member.partitions}


class Committed(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str


class GroupAdmin:
    """What an administrator asks about groups, through one client."""

    __slots__ = ("client",)

    def __init__(self, client: Client) -> None:
        self.client = client

    async def list_groups(self) -> list[ListedGroup]:
        """Those of all brokers, in order of their names."""
        return sorted(await ask_every_broker(self.client, self._listed_by))

    async def describe(self, group_id: str, *, coordinator: int | None = None) -> GroupView:
        """A group of either protocol; GROUP_ID_NOT_FOUND if there is none."""
        asked = Coordinator(self.client, OF_GROUP, group_id, broker=coordinator)
        try:
            return await self._describe_consumer(asked, group_id)
        except KafkaError as error:
            if error.error not in (Error.GROUP_ID_NOT_FOUND, Error.UNSUPPORTED_VERSION):
                raise
        return await self._describe_classic(asked, group_id)

    async def committed(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        stable: bool = False,
        coordinator: int | None = None,
    ) -> dict[TopicPartition, Committed]:
        """What the group has committed for these partitions, or for all; `stable` waits until
        open transactions that commit offsets have decided."""
        request = _fetch_message(group_id, partitions, stable=stable)

        def verdict(answer: OffsetFetchResponse) -> None:
            error, topics = _answered(answer)
            check(error, f"the offsets of {group_id}")
            for topic in topics:
                for each in topic.partitions:
                    check(each.error_code, f"{topic.name}-{each.partition_index}")

        asked = Coordinator(self.client, OF_GROUP, group_id, broker=coordinator)
        answer = await asked.ask(request, OffsetFetchResponse, verdict)
        return {
            (topic.name, each.partition_index): Committed(
                each.committed_offset, each.committed_leader_epoch, each.metadata or ""
            )
            for topic in _answered(answer)[1]
            for each in topic.partitions
            if each.committed_offset != NO_OFFSET
        }

    async def move(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        notes: Mapping[TopicPartition, str] | None = None,
    ) -> None:
        """Commit these offsets for the group, which nobody may be a member of; `notes` are what
        Kafka calls their metadata."""
        request = commit_message(group_id, offsets, notes=notes or {})

        def verdict(answer: OffsetCommitResponse) -> None:
            check_committed(answer)

        coordinator = Coordinator(self.client, OF_GROUP, group_id)
        await coordinator.ask(request, OffsetCommitResponse, verdict)

    async def delete(self, group_id: str) -> None:
        """With all it has committed; NON_EMPTY_GROUP while somebody is a member."""

        def verdict(answer: DeleteGroupsResponse) -> None:
            check(answer.results[0].error_code, f"group {group_id}")

        coordinator = Coordinator(self.client, OF_GROUP, group_id)
        request = DeleteGroupsRequest(groups_names=[group_id])
        await coordinator.ask(request, DeleteGroupsResponse, verdict)

    async def _listed_by(self, broker: int) -> list[ListedGroup]:
        answer = await self.client.ask_broker(broker, ListGroupsRequest(), ListGroupsResponse)
        check(answer.error_code, f"the groups of broker {broker}")
        return [
            ListedGroup(
                each.group_id,
                each.group_type.lower(),
                each.group_state,
                each.protocol_type,
                broker,
            )
            for each in answer.groups
        ]

    async def _describe_consumer(self, asked: Coordinator, group_id: str) -> GroupView:
        def verdict(answer: consumer_response.ConsumerGroupDescribeResponse) -> None:
            check(answer.groups[0].error_code, answer.groups[0].error_message)

        answer = await asked.ask(
            ConsumerGroupDescribeRequest(group_ids=[group_id]),
            consumer_response.ConsumerGroupDescribeResponse,
            verdict,
        )
        group = answer.groups[0]
        return GroupView(
            group_id,
            CONSUMER,
            group.group_state,
            await asked.broker(),
            group.assignor_name,
            group.group_epoch,
            tuple(_consumer_member(each) for each in group.members),
        )

    async def _describe_classic(self, asked: Coordinator, group_id: str) -> GroupView:
        def verdict(answer: classic_response.DescribeGroupsResponse) -> None:
            group = answer.groups[0]
            check(group.error_code, group.error_message or f"there is no group {group_id}")
            if group.group_state == DEAD:  # how versions before 6 say so
                raise KafkaError(Error.GROUP_ID_NOT_FOUND, f"there is no group {group_id}")

        answer = await asked.ask(
            DescribeGroupsRequest(groups=[group_id]),
            classic_response.DescribeGroupsResponse,
            verdict,
        )
        group = answer.groups[0]
        return GroupView(
            group_id,
            CLASSIC,
            group.group_state,
            await asked.broker(),
            group.protocol_data,
            None,
            tuple(_classic_member(group.protocol_type, each) for each in group.members),
        )


def commit_message(
    group_id: str,
    offsets: Mapping[TopicPartition, int],
    *,
    member_id: str = "",
    generation: int = NO_GENERATION,
    notes: Mapping[TopicPartition, str] = NO_NOTES,
) -> commit_request.OffsetCommitRequest:
    """As a member of a generation, or without one: for a group that has no members."""
    by_topic: dict[str, list[commit_request.OffsetCommitRequestPartition]] = {}
    for (topic, index), offset in sorted(offsets.items()):
        part = commit_request.OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=offset,
            committed_metadata=notes.get((topic, index), ""),
        )
        by_topic.setdefault(topic, []).append(part)
    return commit_request.OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[
            commit_request.OffsetCommitRequestTopic(name=topic, partitions=parts)
            for topic, parts in by_topic.items()
        ],
    )


def check_committed(answer: OffsetCommitResponse) -> None:
    """Raise the first refusal."""
    for topic in answer.topics:
        for each in topic.partitions:
            check(each.error_code, f"{topic.name}-{each.partition_index}")


def total_lag(
    committed: Mapping[TopicPartition, Committed], ends: Mapping[TopicPartition, int]
) -> int | None:
    """Records behind what it has committed; None if it has committed nothing that still is."""
    known = [max(0, ends[where] - committed[where].offset) for where in committed if where in ends]
    return sum(known) if known else None


def _fetch_message(
    group_id: str, partitions: Iterable[TopicPartition] | None, *, stable: bool
) -> fetch_request.OffsetFetchRequest:
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(partitions or ()):
        by_topic.setdefault(topic, []).append(index)
    older = [
        fetch_request.OffsetFetchRequestTopic(name=topic, partition_indexes=indexes)
        for topic, indexes in by_topic.items()
    ]
    newer = [
        fetch_request.OffsetFetchRequestTopics(name=topic, partition_indexes=indexes)
        for topic, indexes in by_topic.items()
    ]
    everything = partitions is None
    group = fetch_request.OffsetFetchRequestGroup(
        group_id=group_id, topics=None if everything else newer
    )
    return fetch_request.OffsetFetchRequest(
        groups=[group],
        group_id=group_id,
        topics=None if everything else older,
        require_stable=stable,
    )


def _answered(answer: OffsetFetchResponse) -> tuple[int, Sequence[AnsweredTopic]]:
    """(error, topics) of the group asked for, also from who answers about one group at a time."""
    if answer.groups:
        return answer.groups[0].error_code, answer.groups[0].topics
    return answer.error_code, answer.topics


def _consumer_member(member: consumer_response.Member) -> GroupMember:
    return GroupMember(
        member.member_id,
        member.client_id,
        _host(member.client_host),
        member.instance_id,
        tuple(sorted(member.subscribed_topic_names)),
        _pairs((t.topic_name, t.partitions) for t in member.assignment.topic_partitions),
        _pairs((t.topic_name, t.partitions) for t in member.target_assignment.topic_partitions),
        member.member_epoch,
    )


def _classic_member(
    protocol_type: str, member: classic_response.DescribedGroupMember
) -> GroupMember:
    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()
    if protocol_type == CONSUMER_PROTOCOL:
        subscription = read_versioned(ConsumerProtocolSubscription, member.member_metadata)
        assignment = read_versioned(ConsumerProtocolAssignment, member.member_assignment)
        topics = tuple(sorted(subscription.topics)) if subscription else ()
        if assignment is not None:
            partitions = _pairs((t.topic, t.partitions) for t in assignment.assigned_partitions)
    return GroupMember(
        member.member_id,
        member.client_id,
        _host(member.client_host),
        member.group_instance_id,
        topics,
        partitions,
        partitions,
        None,
    )


def read_versioned(message: type[M], data: bytes) -> M | None:
    """What members tell each other: a version, then the message; None if it is neither."""
    if len(data) < 2:
        return None
    version = int.from_bytes(data[:2], "big", signed=True)
    try:
        return decode(message, min(version, message.__versions__.last), data, 2)
    except ProtocolError:
        return None


def _pairs(topics: Iterable[tuple[str, Iterable[int]]]) -> tuple[TopicPartition, ...]:
    return tuple(sorted((name, index) for name, indexes in topics for index in indexes))


def _host(text: str) -> str:
    """Java brokers write `/10.0.0.4`."""
    return text.removeprefix("/")
