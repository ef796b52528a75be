"""Messages between quorum nodes: from the core's to Kafka's and back (kraft.md §2).

The core's answers repeat what they answer; Kafka's do not. So a request becomes a wire request
by itself, and a wire answer becomes the core's together with the question that it answers.
Requests of older versions are understood; what they cannot say has the schema's default.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tidelog.core.quorum import messages as m
from tidelog.quorum.entry_codec import KafkaEntryCodec
from tidelog.quorum.membership import STATIC_DIRECTORY_ID, Address
from tidelog.wire.protocol import Message
from tidelog.wire.protocol.schemas import begin_quorum_epoch_request as begin
from tidelog.wire.protocol.schemas import end_quorum_epoch_request as end
from tidelog.wire.protocol.schemas import fetch_request as fetch
from tidelog.wire.protocol.schemas import fetch_snapshot_request as snapshot
from tidelog.wire.protocol.schemas import vote_request as vote

TOPIC = "__cluster_metadata"
TOPIC_ID = bytes(15) + b"\x01"
"""Kafka's fixed id of the metadata topic."""
PARTITION = 0

FETCH_MAX_BYTES = 8 * 1024 * 1024

VERSIONS: dict[type, int] = {
    m.VoteRequest: 2,
    m.BeginEpochRequest: 1,
    m.EndEpochRequest: 1,
    m.FetchRequest: 18,
    m.FetchSnapshotRequest: 1,
}


class Speaker(NamedTuple):
    """What a node knows that is not in the core's messages."""

    cluster_id: str
    """Taken for that of a request that names none, as Kafka does."""
    voters: Mapping[int, Address]
    codec: KafkaEntryCodec
    listener_name: str


class Heard(NamedTuple):
    """A request of another node."""

    source: int
    message: m.QuorumRequest


# Requests --------------------------------------------------------------------------------


def request_to_wire(speaker: Speaker, target: int, request: m.QuorumRequest) -> Message:
    return _REQUESTS_OUT[type(request)](speaker, target, request)


def request_from_wire(speaker: Speaker, request: Message) -> Heard | None:
    """None if it is about another partition than the metadata log's, or about several."""
    return _REQUESTS_IN[type(request)](speaker, request)


def _vote_out(_speaker: Speaker, _target: int, request: m.VoteRequest) -> Message:
    partition = vote.PartitionData(
        partition_index=PARTITION,
        replica_epoch=request.epoch,
        replica_id=request.candidate.node_id,
        replica_directory_id=request.candidate.directory_id,
        voter_directory_id=request.voter.directory_id,
        last_offset_epoch=request.last_epoch,
        last_offset=request.last_offset,
        pre_vote=request.pre_vote,
    )
    topic = vote.TopicData(topic_name=TOPIC, partitions=[partition])
    return vote.VoteRequest(
        cluster_id=request.cluster_id, voter_id=request.voter.node_id, topics=[topic]
    )


def _vote_in(speaker: Speaker, wire: vote.VoteRequest) -> Heard | None:
    partition = _only_partition(wire)
    if partition is None:
        return None
    request = m.VoteRequest(
        _cluster_of(speaker, wire),
        partition.replica_epoch,
        m.VoterKey(partition.replica_id, partition.replica_directory_id),
        m.VoterKey(wire.voter_id, partition.voter_directory_id),
        partition.last_offset_epoch,
        partition.last_offset,
        partition.pre_vote,
    )
    return Heard(partition.replica_id, request)


def _begin_out(speaker: Speaker, target: int, request: m.BeginEpochRequest) -> Message:
    partition = begin.PartitionData(
        partition_index=PARTITION,
        voter_directory_id=STATIC_DIRECTORY_ID,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
    )
    return begin.BeginQuorumEpochRequest(
        cluster_id=request.cluster_id,
        voter_id=target,
        topics=[begin.TopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[
            begin.LeaderEndpoint(name=speaker.listener_name, host=host, port=port)
            for host, port in _address_of(speaker, request.leader_id)
        ],
    )


def _begin_in(speaker: Speaker, wire: begin.BeginQuorumEpochRequest) -> Heard | None:
    partition = _only_partition(wire)
    if partition is None:
        return None
    cluster_id, leader_id = _cluster_of(speaker, wire), partition.leader_id
    return Heard(leader_id, m.BeginEpochRequest(cluster_id, partition.leader_epoch, leader_id))


def _end_out(speaker: Speaker, _target: int, request: m.EndEpochRequest) -> Message:
    partition = end.PartitionData(
        partition_index=PARTITION,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_candidates=[
            end.ReplicaInfo(candidate_id=node_id, candidate_directory_id=STATIC_DIRECTORY_ID)
            for node_id in request.preferred_candidates
        ],
    )
    return end.EndQuorumEpochRequest(
        cluster_id=request.cluster_id,
        topics=[end.TopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[
            end.LeaderEndpoint(name=speaker.listener_name, host=host, port=port)
            for host, port in _address_of(speaker, request.leader_id)
        ],
    )


def _end_in(speaker: Speaker, wire: end.EndQuorumEpochRequest) -> Heard | None:
    partition = _only_partition(wire)
    if partition is None:
        return None
    candidates = [each.candidate_id for each in partition.preferred_candidates]
    request = m.EndEpochRequest(
        _cluster_of(speaker, wire),
        partition.leader_epoch,
        partition.leader_id,
        tuple(candidates or partition.preferred_successors),
    )
    return Heard(partition.leader_id, request)


def _fetch_out(_speaker: Speaker, _target: int, request: m.FetchRequest) -> Message:
    partition = fetch.FetchPartition(
        partition=PARTITION,
        current_leader_epoch=request.epoch,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch,
        partition_max_bytes=FETCH_MAX_BYTES,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    return fetch.FetchRequest(
        cluster_id=request.cluster_id,
        replica_state=fetch.ReplicaState(replica_id=request.replica.node_id),
        max_wait_ms=request.max_wait_ms,
        max_bytes=FETCH_MAX_BYTES,
        topics=[fetch.FetchTopic(topic_id=TOPIC_ID, topic=TOPIC, partitions=[partition])],
    )


def _fetch_in(speaker: Speaker, wire: fetch.FetchRequest) -> Heard | None:
    if len(wire.topics) != 1 or len(wire.topics[0].partitions) != 1:
        return None
    topic, partition = wire.topics[0], wire.topics[0].partitions[0]
    if (topic.topic_id != TOPIC_ID and topic.topic != TOPIC) or partition.partition != PARTITION:
        return None
    state = wire.replica_state
    source = wire.replica_id if state is None else state.replica_id
    request = m.FetchRequest(
        _cluster_of(speaker, wire),
        partition.current_leader_epoch,
        m.VoterKey(source, partition.replica_directory_id),
        partition.fetch_offset,
        partition.last_fetched_epoch,
        partition.high_watermark,
        max(0, wire.max_wait_ms),
    )
    return Heard(source, request)


def _snapshot_out(_speaker: Speaker, _target: int, request: m.FetchSnapshotRequest) -> Message:
    end_offset, epoch = request.snapshot
    partition = snapshot.PartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=request.epoch,
        snapshot_id=snapshot.SnapshotId(end_offset=end_offset, epoch=epoch),
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    return snapshot.FetchSnapshotRequest(
        cluster_id=request.cluster_id,
        replica_id=request.replica.node_id,
        max_bytes=request.max_bytes,
        topics=[snapshot.TopicSnapshot(name=TOPIC, partitions=[partition])],
    )


def _snapshot_in(speaker: Speaker, wire: snapshot.FetchSnapshotRequest) -> Heard | None:
    if len(wire.topics) != 1 or len(wire.topics[0].partitions) != 1:
        return None
    partition = wire.topics[0].partitions[0]
    if wire.topics[0].name != TOPIC or partition.partition != PARTITION:
        return None
    request = m.FetchSnapshotRequest(
        _cluster_of(speaker, wire),
        partition.current_leader_epoch,
        m.VoterKey(wire.replica_id, partition.replica_directory_id),
        m.SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        partition.position,
        min(max(1, wire.max_bytes), FETCH_MAX_BYTES),
    )
    return Heard(wire.replica_id, request)


# Any: each function takes exactly the type it is filed under.
_REQUESTS_OUT: dict[type, Callable[[Speaker, int, Any], Message]] = {
    m.VoteRequest: _vote_out,
    m.BeginEpochRequest: _begin_out,
    m.EndEpochRequest: _end_out,
    m.FetchRequest: _fetch_out,
    m.FetchSnapshotRequest: _snapshot_out,
}
_REQUESTS_IN: dict[type, Callable[[Speaker, Any], Heard | None]] = {
    vote.VoteRequest: _vote_in,
    begin.BeginQuorumEpochRequest: _begin_in,
    end.EndQuorumEpochRequest: _end_in,
    fetch.FetchRequest: _fetch_in,
    snapshot.FetchSnapshotRequest: _snapshot_in,
}


def _only_partition(wire: Any) -> Any:
    """Of the three requests that have the same shape; None if it is not the metadata log's."""
    if len(wire.topics) != 1 or len(wire.topics[0].partitions) != 1:
        return None
    partition = wire.topics[0].partitions[0]
    if wire.topics[0].topic_name != TOPIC or partition.partition_index != PARTITION:
        return None
    return partition


def _cluster_of(speaker: Speaker, wire: Any) -> str:
    cluster_id: str | None = wire.cluster_id
    return speaker.cluster_id if cluster_id is None else cluster_id


def _address_of(speaker: Speaker, node_id: int) -> list[Address]:
    address = speaker.voters.get(node_id)
    return [] if address is None else [address]
