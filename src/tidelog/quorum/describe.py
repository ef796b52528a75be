"""DescribeQuorum (55): the members of the quorum and how far each of them is (KIP-595, KIP-836)."""

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.core.errors import Error
from tidelog.quorum.membership import QuorumMembership
from tidelog.quorum.translate import PARTITION, TOPIC
from tidelog.wire.protocol.schemas import describe_quorum_response as answer
from tidelog.wire.protocol.schemas.describe_quorum_request import DescribeQuorumRequest

UNKNOWN_TIME_MS = -1


class ReplicaDescription(NamedTuple):
    """Times are wall clock times of the leader; -1 if it never happened."""

    node_id: int
    directory_id: bytes
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class QuorumDescription(NamedTuple):
    """Only the leader knows `voters` and `observers`; elsewhere they are empty."""

    leads: bool
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[ReplicaDescription, ...]
    observers: tuple[ReplicaDescription, ...]


def describe_response(
    request: DescribeQuorumRequest, told: QuorumDescription, place: QuorumMembership
) -> answer.DescribeQuorumResponse:
    topics = [
        answer.TopicData(
            topic_name=topic.topic_name,
            partitions=[
                _partition(topic.topic_name, each.partition_index, told)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    nodes = [
        answer.Node(
            node_id=node_id,
            listeners=[answer.Listener(name=place.listener_name, host=host, port=port)],
        )
        for node_id, (host, port) in sorted(place.voters.items())
    ]
    return answer.DescribeQuorumResponse(topics=topics, nodes=nodes)


def _partition(topic: str, index: int, told: QuorumDescription) -> answer.PartitionData:
    if topic != TOPIC or index != PARTITION:
        return answer.PartitionData(
            partition_index=index,
            error_code=Error.UNKNOWN_TOPIC_OR_PARTITION,
            error_message=f"only partition {PARTITION} of {TOPIC} has a quorum",
        )
    if not told.leads:
        return answer.PartitionData(
            partition_index=index,
            error_code=Error.NOT_LEADER_OR_FOLLOWER,
            error_message=_who_leads(told.leader_id),
            leader_id=told.leader_id,
            leader_epoch=told.leader_epoch,
        )
    return answer.PartitionData(
        partition_index=index,
        leader_id=told.leader_id,
        leader_epoch=told.leader_epoch,
        high_watermark=told.high_watermark,
        current_voters=_states(told.voters),
        observers=_states(told.observers),
    )


def _who_leads(leader_id: int) -> str:
    if leader_id < 0:
        return "this node does not lead the metadata quorum and knows of no leader; ask again soon"
    return f"this node does not lead the metadata quorum; ask node {leader_id}"


def _states(replicas: Sequence[ReplicaDescription]) -> list[answer.ReplicaState]:
    return [
        answer.ReplicaState(
            replica_id=each.node_id,
            replica_directory_id=each.directory_id,
            log_end_offset=each.log_end_offset,
            last_fetch_timestamp=each.last_fetch_ms,
            last_caught_up_timestamp=each.last_caught_up_ms,
        )
        for each in replicas
    ]
