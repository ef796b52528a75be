"""Every message of the quorum survives the way over Kafka's wire messages."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.core.errors import Error
from tidelog.core.metadata.records import NoOp, Topic
from tidelog.core.quorum import messages as m
from tidelog.core.types import NO_EPOCH, NO_LEADER, EpochEnd, LogEntry
from tidelog.quorum import translate_answers
from tidelog.quorum.entry_codec import KafkaEntryCodec
from tidelog.quorum.translate import (
    TOPIC,
    TOPIC_ID,
    VERSIONS,
    Heard,
    Speaker,
    request_from_wire,
    request_to_wire,
)
from tidelog.quorum.translate_answers import (
    is_answer_to,
    refusal,
    response_from_wire,
    response_to_wire,
)
from tidelog.wire.protocol import Message, ProtocolError, decode, encode, response_class
from tidelog.wire.protocol.schemas.fetch_request import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.protocol.schemas.fetch_response import FetchResponse
from tidelog.wire.protocol.schemas.vote_request import VoteRequest
from tidelog.wire.records import InvalidBatch, InvalidRecord

VOTERS = {1: ("one", 9093), 2: ("two", 9093), 3: ("three", 9093)}
NOW_MS = 1_700_000_000_000
INT32 = st.integers(0, 2**31 - 1)
INT64 = st.integers(0, 2**62)
NODE = st.integers(1, 9)
LEADER = st.integers(-1, 9)
EPOCH = st.just(-1) | st.integers(1, 2**31 - 1)  # nobody ever led epoch 0
UUID = st.binary(min_size=16, max_size=16)
KEY = st.builds(m.VoterKey, NODE, UUID)
CLUSTER = st.text(min_size=1, max_size=22)
SNAPSHOT = st.builds(m.SnapshotId, INT64, INT32)
ERROR = st.sampled_from([each for each in Error if each is not Error.INCONSISTENT_CLUSTER_ID])
MAX_BYTES = st.integers(1, 8 * 1024 * 1024)

REQUESTS: dict[type, st.SearchStrategy[m.QuorumRequest]] = {
    m.VoteRequest: st.builds(m.VoteRequest, CLUSTER, INT32, KEY, KEY, INT32, INT64, st.booleans()),
    m.BeginEpochRequest: st.builds(m.BeginEpochRequest, CLUSTER, INT32, NODE),
    m.EndEpochRequest: st.builds(
        m.EndEpochRequest, CLUSTER, INT32, NODE, st.lists(NODE, max_size=4).map(tuple)
    ),
    m.FetchRequest: st.builds(
        m.FetchRequest, CLUSTER, INT32, KEY, INT64, INT32, st.integers(-1, 2**63 - 1), INT32
    ),
    m.FetchSnapshotRequest: st.builds(
        m.FetchSnapshotRequest, CLUSTER, INT32, KEY, SNAPSHOT, INT64, MAX_BYTES
    ),
}


def speaker() -> Speaker:
    return Speaker("cluster", VOTERS, KafkaEntryCodec(), "CONTROLLER")


def sent_request(request: m.QuorumRequest) -> Message:
    """Over the wire, as the other side has it."""
    version = VERSIONS[type(request)]
    wire = request_to_wire(speaker(), 2, request)
    return decode(type(wire), version, encode(wire, version))


def answered(question: m.QuorumRequest, response: m.QuorumResponse) -> m.QuorumResponse:
    version = VERSIONS[type(question)]
    wire = response_to_wire(speaker(), response, NOW_MS)
    read = decode(type(wire), version, encode(wire, version))
    return response_from_wire(speaker(), question, read)


def source_of(request: m.QuorumRequest) -> int:
    if isinstance(request, m.VoteRequest):
        return request.candidate.node_id
    if isinstance(request, m.FetchRequest | m.FetchSnapshotRequest):
        return request.replica.node_id
    return request.leader_id


def a_fetch(offset: int = 10, last_epoch: int = 1) -> m.FetchRequest:
    return m.FetchRequest("cluster", 4, m.VoterKey(2, bytes(16)), offset, last_epoch, 0, 500)


def test_every_request_of_the_core_is_translated() -> None:
    assert set(REQUESTS) == set(VERSIONS) == set(get_args(m.QuorumRequest))


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
def test_a_request_arrives_as_it_was_sent_with_its_sender(kind: type) -> None:
    @given(REQUESTS[kind])
    def check(request: m.QuorumRequest) -> None:
        heard = request_from_wire(speaker(), sent_request(request))
        assert heard == Heard(source_of(request), request)

    check()


@given(REQUESTS[m.VoteRequest], ERROR, EPOCH, LEADER, st.booleans())
def test_a_vote_arrives_as_it_was_given(
    question: m.VoteRequest, error: Error, epoch: int, leader_id: int, granted: bool
) -> None:
    response = m.VoteResponse(error, epoch, leader_id, granted, question.pre_vote)
    assert answered(question, response) == response


@given(REQUESTS[m.BeginEpochRequest], REQUESTS[m.EndEpochRequest], ERROR, EPOCH, LEADER)
def test_answers_about_epochs_arrive_as_they_were_given(
    begin: m.BeginEpochRequest, end: m.EndEpochRequest, error: Error, epoch: int, leader_id: int
) -> None:
    begun = m.BeginEpochResponse(error, epoch, leader_id)
    assert answered(begin, begun) == begun
    ended = m.EndEpochResponse(error, epoch, leader_id)
    assert answered(end, ended) == ended


@given(
    REQUESTS[m.FetchRequest],
    st.lists(st.integers(1, 4), max_size=5),
    st.none() | st.builds(EpochEnd, INT32, INT64),
    st.none() | SNAPSHOT,
    st.tuples(ERROR, EPOCH, LEADER, st.integers(-1, 2**62)),
)
def test_a_fetch_answer_arrives_as_it_was_given(
    question: m.FetchRequest,
    sizes: list[int],
    diverging: EpochEnd | None,
    snapshot: m.SnapshotId | None,
    rest: tuple[Error, int, int, int],
) -> None:
    error, epoch, leader_id, high_watermark = rest
    entries = []
    offset = question.fetch_offset
    for size in sizes:
        entries.append(LogEntry(offset, question.last_fetched_epoch, (NoOp(),) * size))
        offset += size
    response = m.FetchResponse(
        error,
        epoch,
        leader_id,
        question.fetch_offset,
        high_watermark,
        tuple(entries),
        diverging,
        snapshot,
        question.last_fetched_epoch,
    )
    assert answered(question, response) == response


@given(
    REQUESTS[m.FetchSnapshotRequest],
    st.tuples(ERROR, EPOCH, LEADER),
    INT64,
    st.binary(max_size=100),
)
def test_a_chunk_of_a_snapshot_arrives_as_it_was_given(
    question: m.FetchSnapshotRequest, head: tuple[Error, int, int], size: int, chunk: bytes
) -> None:
    response = m.FetchSnapshotResponse(*head, question.snapshot, size, question.position, chunk)
    assert answered(question, response) == response


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
def test_another_cluster_learns_that_it_is_another_cluster_and_nothing_else(kind: type) -> None:
    @given(REQUESTS[kind])
    def check(question: m.QuorumRequest) -> None:
        response = answered(question, refusal(question, Error.INCONSISTENT_CLUSTER_ID))
        assert response.error is Error.INCONSISTENT_CLUSTER_ID
        assert (response.epoch, response.leader_id) == (NO_EPOCH, NO_LEADER)
        assert is_answer_to(question, response)

    check()


def test_a_fetch_names_the_metadata_topic_by_kafkas_fixed_id() -> None:
    wire = sent_request(a_fetch())
    assert isinstance(wire, FetchRequest)
    assert wire.topics[0].topic_id == TOPIC_ID == (1).to_bytes(16, "big")


def test_an_old_fetch_names_the_topic_by_its_name_and_no_cluster() -> None:
    partition = FetchPartition(current_leader_epoch=3, fetch_offset=7, last_fetched_epoch=2)
    topic = FetchTopic(topic=TOPIC, partitions=[partition])
    old = FetchRequest(replica_id=5, max_wait_ms=10, topics=[topic])
    heard = request_from_wire(speaker(), decode(FetchRequest, 12, encode(old, 12)))
    assert heard is not None
    assert heard.source == 5
    assert isinstance(heard.message, m.FetchRequest)
    assert heard.message.cluster_id == "cluster"
    assert (heard.message.epoch, heard.message.fetch_offset) == (3, 7)


def test_requests_about_other_partitions_are_not_the_quorums() -> None:
    other = FetchTopic(topic_id=bytes(range(16)), partitions=[FetchPartition()])
    assert request_from_wire(speaker(), FetchRequest(topics=[other])) is None
    second = FetchTopic(topic_id=TOPIC_ID, partitions=[FetchPartition(partition=1)])
    assert request_from_wire(speaker(), FetchRequest(topics=[second])) is None
    assert request_from_wire(speaker(), FetchRequest(topics=[])) is None
    assert request_from_wire(speaker(), VoteRequest(topics=[])) is None


def test_more_entries_than_fit_are_left_for_the_next_fetch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(translate_answers, "FETCH_MAX_BYTES", 300)
    entries = tuple(LogEntry(10 + n, 1, (Topic("t" * 50, bytes(16)),)) for n in range(5))
    given_all = m.FetchResponse(Error.NONE, 4, 1, 10, 0, entries, None, None, 1)
    got = answered(a_fetch(), given_all)
    assert isinstance(got, m.FetchResponse)
    assert got.entries == entries[:2]
    huge = (LogEntry(10, 1, (Topic("t" * 500, bytes(16)),)),)
    got = answered(a_fetch(), given_all._replace(entries=huge))
    assert isinstance(got, m.FetchResponse)
    assert got.entries == huge, "one is always sent, or nothing would ever move"


@pytest.mark.parametrize(
    "entry",
    [LogEntry(11, 1, (NoOp(),)), LogEntry(9, 1, (NoOp(),)), LogEntry(10, 0, (NoOp(),))],
    ids=["beyond", "before", "older epoch"],
)
def test_entries_that_do_not_continue_the_log_are_refused(entry: LogEntry) -> None:
    response = m.FetchResponse(Error.NONE, 4, 1, 10, 0, (entry,), None, None, 1)
    with pytest.raises(InvalidRecord, match="where 10 of epoch 1 or later comes next"):
        answered(a_fetch(), response)


def test_damaged_entries_are_refused() -> None:
    response = m.FetchResponse(Error.NONE, 4, 1, 10, 0, (LogEntry(10, 1, (NoOp(),)),), None)
    wire = response_to_wire(speaker(), response, NOW_MS)
    assert isinstance(wire, FetchResponse)
    partition = wire.responses[0].partitions[0]
    damaged = bytearray(partition.records or b"")
    damaged[-1] ^= 1
    partition.records = damaged
    with pytest.raises(InvalidBatch):
        response_from_wire(speaker(), a_fetch(), wire)


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
def test_an_answer_about_nothing_is_nonsense(kind: type) -> None:
    keys = {
        m.VoteRequest: 52,
        m.BeginEpochRequest: 53,
        m.EndEpochRequest: 54,
        m.FetchRequest: 1,
        m.FetchSnapshotRequest: 59,
    }

    @given(REQUESTS[kind])
    def check(question: m.QuorumRequest) -> None:
        with pytest.raises(ProtocolError, match="not about one partition"):
            response_from_wire(speaker(), question, response_class(keys[kind])())

    check()


def test_an_error_from_the_future_is_an_error() -> None:
    wire = FetchResponse(error_code=31_000)
    assert response_from_wire(speaker(), a_fetch(), wire).error is Error.UNKNOWN_SERVER_ERROR


def test_a_fetch_is_never_answered_with_what_belongs_to_another() -> None:
    response = m.FetchResponse(Error.NONE, 4, 1, 10, 0, last_fetched_epoch=1)
    assert is_answer_to(a_fetch(), response)
    assert not is_answer_to(a_fetch(offset=11), response)
    assert not is_answer_to(a_fetch(last_epoch=2), response)
