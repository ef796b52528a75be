"""Answers of quorum nodes: the core's and Kafka's. See `translate` for the requests."""

from collections.abc import Callable
from typing import Any

from tidelog.core.errors import Error
from tidelog.core.quorum import messages as m
from tidelog.core.types import NO_EPOCH, NO_LEADER, NO_OFFSET, EpochEnd, LogEntry
from tidelog.quorum.translate import FETCH_MAX_BYTES, PARTITION, TOPIC, TOPIC_ID, Speaker
from tidelog.wire.protocol import Buffer, Message, ProtocolError, response_class
from tidelog.wire.protocol.schemas import begin_quorum_epoch_response as begin
from tidelog.wire.protocol.schemas import end_quorum_epoch_response as end
from tidelog.wire.protocol.schemas import fetch_response as fetch
from tidelog.wire.protocol.schemas import fetch_snapshot_response as snapshot
from tidelog.wire.protocol.schemas import vote_response as vote
from tidelog.wire.records import InvalidRecord

FETCH = 1


def response_to_wire(speaker: Speaker, response: m.QuorumResponse, wall_ms: int) -> Message:
    """`wall_ms` is the time of entries that have no bytes yet."""
    if type(response) is m.FetchResponse:
        return _fetch_out(speaker, response, wall_ms)
    return _RESPONSES_OUT[type(response)](speaker, response)


def response_from_wire(
    speaker: Speaker, question: m.QuorumRequest, wire: Message
) -> m.QuorumResponse:
    """ProtocolError or InvalidBatch if the answer makes no sense."""
    return _RESPONSES_IN[type(question)](speaker, question, wire)


def refusal(question: m.QuorumRequest, error: Error) -> m.QuorumResponse:
    """An answer that the core is not asked for: it names nobody and teaches nothing."""
    if type(question) is m.VoteRequest:
        return m.VoteResponse(error, NO_EPOCH, NO_LEADER, False, question.pre_vote)
    if type(question) is m.BeginEpochRequest:
        return m.BeginEpochResponse(error, NO_EPOCH, NO_LEADER)
    if type(question) is m.EndEpochRequest:
        return m.EndEpochResponse(error, NO_EPOCH, NO_LEADER)
    if type(question) is m.FetchRequest:
        return m.FetchResponse(
            error,
            NO_EPOCH,
            NO_LEADER,
            question.fetch_offset,
            NO_OFFSET,
            last_fetched_epoch=question.last_fetched_epoch,
        )
    assert type(question) is m.FetchSnapshotRequest, question
    return m.FetchSnapshotResponse(
        error, NO_EPOCH, NO_LEADER, question.snapshot, 0, question.position, b""
    )


def wrong_partition(request: Message) -> Message:
    """To a request that is about something else than the metadata log."""
    key = request.__api_key__
    error = Error.UNKNOWN_TOPIC_ID if key == FETCH else Error.UNKNOWN_TOPIC_OR_PARTITION
    answer: Any = response_class(key)  # all five have an error of the whole answer
    told: Message = answer(error_code=int(error))
    return told


def is_answer_to(question: m.QuorumRequest, response: m.QuorumResponse) -> bool:
    """Is this response about that question? Kafka's answers do not repeat what they answer, so a
    fetch must never be answered with what belongs to another one."""
    if type(question) is m.FetchRequest:
        return (
            type(response) is m.FetchResponse
            and response.fetch_offset == question.fetch_offset
            and response.last_fetched_epoch == question.last_fetched_epoch
        )
    if type(question) is m.FetchSnapshotRequest:
        return (
            type(response) is m.FetchSnapshotResponse
            and response.snapshot == question.snapshot
            and response.position == question.position
        )
    if type(question) is m.VoteRequest:
        return type(response) is m.VoteResponse and response.pre_vote == question.pre_vote
    return True


# To the wire -----------------------------------------------------------------------------


def _top_level(error: Error) -> int:
    """Another cluster is told only that it is another cluster."""
    return int(error) if error is Error.INCONSISTENT_CLUSTER_ID else 0


def _vote_out(speaker: Speaker, response: m.VoteResponse) -> Message:
    if _top_level(response.error):
        return vote.VoteResponse(error_code=response.error)
    partition = vote.PartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        leader_id=response.leader_id,
        leader_epoch=response.epoch,
        vote_granted=response.granted,
    )
    return vote.VoteResponse(
        topics=[vote.TopicData(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=_endpoints(speaker, response.leader_id, vote.NodeEndpoint),
    )


def _begin_out(speaker: Speaker, response: m.BeginEpochResponse) -> Message:
    if _top_level(response.error):
        return begin.BeginQuorumEpochResponse(error_code=response.error)
    partition = begin.PartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        leader_id=response.leader_id,
        leader_epoch=response.epoch,
    )
    return begin.BeginQuorumEpochResponse(
        topics=[begin.TopicData(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=_endpoints(speaker, response.leader_id, begin.NodeEndpoint),
    )


def _end_out(speaker: Speaker, response: m.EndEpochResponse) -> Message:
    if _top_level(response.error):
        return end.EndQuorumEpochResponse(error_code=response.error)
    partition = end.PartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        leader_id=response.leader_id,
        leader_epoch=response.epoch,
    )
    return end.EndQuorumEpochResponse(
        topics=[end.TopicData(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=_endpoints(speaker, response.leader_id, end.NodeEndpoint),
    )


def _fetch_out(speaker: Speaker, response: m.FetchResponse, wall_ms: int) -> Message:
    if _top_level(response.error):
        return fetch.FetchResponse(error_code=response.error)
    diverging, snapshot_id = response.diverging, response.snapshot
    partition = fetch.PartitionData(
        partition_index=PARTITION,
        error_code=response.error,
        high_watermark=response.high_watermark,
        last_stable_offset=response.high_watermark,
        diverging_epoch=None
        if diverging is None
        else fetch.EpochEndOffset(epoch=diverging.leader_epoch, end_offset=diverging.end_offset),
        current_leader=fetch.LeaderIdAndEpoch(
            leader_id=response.leader_id, leader_epoch=response.epoch
        ),
        snapshot_id=None
        if snapshot_id is None
        else fetch.SnapshotId(end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch),
        records=_batches(speaker, response.entries, wall_ms),
    )
    topic = fetch.FetchableTopicResponse(topic_id=TOPIC_ID, topic=TOPIC, partitions=[partition])
    endpoints = _endpoints(speaker, response.leader_id, fetch.NodeEndpoint)
    return fetch.FetchResponse(responses=[topic], node_endpoints=endpoints)


def _batches(speaker: Speaker, entries: tuple[LogEntry, ...], wall_ms: int) -> bytes:
    """As many as may be sent at once, at least one: the rest is asked for next."""
    batches: list[bytes] = []
    size_bytes = 0
    for entry in entries:
        batch = speaker.codec.encode_entry(entry, wall_ms)
        size_bytes += len(batch)
        if batches and size_bytes > FETCH_MAX_BYTES:
            break
        batches.append(batch)
    return b"".join(batches)


def _snapshot_out(speaker: Speaker, response: m.FetchSnapshotResponse) -> Message:
    if _top_level(response.error):
        return snapshot.FetchSnapshotResponse(error_code=response.error)
    end_offset, epoch = response.snapshot
    partition = snapshot.PartitionSnapshot(
        index=PARTITION,
        error_code=response.error,
        snapshot_id=snapshot.SnapshotId(end_offset=end_offset, epoch=epoch),
        current_leader=snapshot.LeaderIdAndEpoch(
            leader_id=response.leader_id, leader_epoch=response.epoch
        ),
        size=response.size,
        position=response.position,
        unaligned_records=response.chunk if isinstance(response.chunk, bytes) else b"",
    )
    return snapshot.FetchSnapshotResponse(
        topics=[snapshot.TopicSnapshot(name=TOPIC, partitions=[partition])],
        node_endpoints=_endpoints(speaker, response.leader_id, snapshot.NodeEndpoint),
    )


def _endpoints(speaker: Speaker, leader_id: int, endpoint: Callable[..., Any]) -> list[Any]:
    """Where the leader is, for nodes that know only some of the voters."""
    address = speaker.voters.get(leader_id)
    if address is None:
        return []
    return [endpoint(node_id=leader_id, host=address[0], port=address[1])]


_RESPONSES_OUT: dict[type, Callable[[Speaker, Any], Message]] = {
    m.VoteResponse: _vote_out,
    m.BeginEpochResponse: _begin_out,
    m.EndEpochResponse: _end_out,
    m.FetchSnapshotResponse: _snapshot_out,
}


# From the wire ---------------------------------------------------------------------------


def _error(code: int) -> Error:
    """A code from the future says no more than that it did not work."""
    try:
        return Error(code)
    except ValueError:
        return Error.UNKNOWN_SERVER_ERROR


def _partition_of(topics: Any, wire: Message) -> Any:
    """The one partition of an answer."""
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise ProtocolError(f"{type(wire).__name__} is not about one partition")
    return topics[0].partitions[0]


def _vote_in(
    _speaker: Speaker, question: m.VoteRequest, wire: vote.VoteResponse
) -> m.QuorumResponse:
    if wire.error_code:
        return refusal(question, _error(wire.error_code))
    told = _partition_of(wire.topics, wire)
    return m.VoteResponse(
        _error(told.error_code),
        told.leader_epoch,
        told.leader_id,
        told.vote_granted,
        question.pre_vote,
    )


def _begin_in(
    _speaker: Speaker, question: m.BeginEpochRequest, wire: begin.BeginQuorumEpochResponse
) -> m.QuorumResponse:
    if wire.error_code:
        return refusal(question, _error(wire.error_code))
    told = _partition_of(wire.topics, wire)
    return m.BeginEpochResponse(_error(told.error_code), told.leader_epoch, told.leader_id)


def _end_in(
    _speaker: Speaker, question: m.EndEpochRequest, wire: end.EndQuorumEpochResponse
) -> m.QuorumResponse:
    if wire.error_code:
        return refusal(question, _error(wire.error_code))
    told = _partition_of(wire.topics, wire)
    return m.EndEpochResponse(_error(told.error_code), told.leader_epoch, told.leader_id)


def _fetch_in(
    speaker: Speaker, question: m.FetchRequest, wire: fetch.FetchResponse
) -> m.QuorumResponse:
    if wire.error_code:
        return refusal(question, _error(wire.error_code))
    told: fetch.PartitionData = _partition_of(wire.responses, wire)
    leader, diverging, snapshot_id = told.current_leader, told.diverging_epoch, told.snapshot_id
    return m.FetchResponse(
        _error(told.error_code),
        NO_EPOCH if leader is None else leader.leader_epoch,
        NO_LEADER if leader is None else leader.leader_id,
        question.fetch_offset,
        told.high_watermark,
        _entries(speaker, question, told.records or b""),
        None if diverging is None else EpochEnd(diverging.epoch, diverging.end_offset),
        None if snapshot_id is None else m.SnapshotId(snapshot_id.end_offset, snapshot_id.epoch),
        question.last_fetched_epoch,
    )


def _entries(speaker: Speaker, question: m.FetchRequest, records: Buffer) -> tuple[LogEntry, ...]:
    entries = speaker.codec.decode_entries(records)
    next_offset, last_epoch = question.fetch_offset, question.last_fetched_epoch
    for entry in entries:
        if entry.offset != next_offset or entry.epoch < last_epoch:
            raise InvalidRecord(
                f"an entry at {entry.offset} of epoch {entry.epoch}, where {next_offset} of "
                f"epoch {last_epoch} or later comes next"
            )
        next_offset, last_epoch = entry.next_offset, entry.epoch
    return entries


def _snapshot_in(
    _speaker: Speaker, question: m.FetchSnapshotRequest, wire: snapshot.FetchSnapshotResponse
) -> m.QuorumResponse:
    if wire.error_code:
        return refusal(question, _error(wire.error_code))
    told: snapshot.PartitionSnapshot = _partition_of(wire.topics, wire)
    leader = told.current_leader  # left out when both its fields are 0: nobody leads epoch 0
    return m.FetchSnapshotResponse(
        _error(told.error_code),
        NO_EPOCH if leader is None else leader.leader_epoch,
        NO_LEADER if leader is None else leader.leader_id,
        m.SnapshotId(told.snapshot_id.end_offset, told.snapshot_id.epoch),
        told.size,
        told.position,
        bytes(told.unaligned_records or b""),
    )


# Any: each function takes exactly the question and the answer it is filed under.
_RESPONSES_IN: dict[type, Callable[[Speaker, Any, Any], m.QuorumResponse]] = {
    m.VoteRequest: _vote_in,
    m.BeginEpochRequest: _begin_in,
    m.EndEpochRequest: _end_in,
    m.FetchRequest: _fetch_in,
    m.FetchSnapshotRequest: _snapshot_in,
}
