"""The follower's short way to a Fetch request makes the bytes that the codec makes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.wire.protocol import encode
from tidelog.wire.protocol.schemas.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
)
from tidelog.wire.protocol.session_fetch import (
    FETCH,
    VERSION,
    Position,
    SessionFetch,
    SessionFetchLimits,
)

INT32 = st.integers(-1, 2**31 - 1)
INT64 = st.integers(-1, 2**63 - 1)
TOPIC_IDS = st.sampled_from([bytes([number]) * 16 for number in range(1, 4)])
POSITIONS = st.tuples(TOPIC_IDS, INT32, INT32, INT64, INT32, INT64)
LIMITS = SessionFetchLimits(500, 1, 10_485_760, 1_048_576)


def as_request(session_id: int, epoch: int, sender: ReplicaState, moved: list[Position]):
    topics: dict[bytes, list[FetchPartition]] = {}
    for topic_id, index, leader_epoch, offset, last_epoch, log_start in moved:
        topics.setdefault(topic_id, []).append(
            FetchPartition(
                partition=index,
                current_leader_epoch=leader_epoch,
                fetch_offset=offset,
                last_fetched_epoch=last_epoch,
                log_start_offset=log_start,
                partition_max_bytes=LIMITS.partition_max_bytes,
            )
        )
    return FetchRequest(
        replica_state=sender,
        max_wait_ms=LIMITS.max_wait_ms,
        min_bytes=LIMITS.min_bytes,
        max_bytes=LIMITS.max_bytes,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic_id=key, partitions=each) for key, each in topics.items()],
    )


@settings(deadline=None)
@given(
    st.integers(1, 2**31 - 1),
    st.integers(1, 2**31 - 1),
    st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)),
    st.lists(POSITIONS, max_size=200),
)
def test_its_bytes_are_those_of_the_codec(session_id, epoch, sender, moved):
    short = SessionFetch(LIMITS, session_id, *sender).body(epoch, moved)
    replica_id, replica_epoch = sender
    state = ReplicaState(replica_id=replica_id, replica_epoch=replica_epoch)
    assert short == encode(as_request(session_id, epoch, state, moved), VERSION)


def test_it_is_the_newest_fetch_there_is():
    assert FetchRequest.__api_key__ == FETCH
    assert FetchRequest.__versions__.last == VERSION


def test_a_topic_without_a_whole_id_is_a_bug_of_ours():
    with pytest.raises(AssertionError):
        SessionFetch(LIMITS, 1, 2, 3).body(1, [(b"short", 0, 0, 0, 0, 0)])
