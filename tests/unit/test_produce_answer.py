"""The usual answer to a produce request is what the general encoder makes of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.wire.protocol import encode
from tidelog.wire.protocol.produce_answer import FIRST_VERSION, LAST_VERSION, plain_answer
from tidelog.wire.protocol.schemas.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

offsets = st.integers(-1, 2**63 - 1)


@pytest.mark.parametrize("version", range(FIRST_VERSION, LAST_VERSION + 1))
@given(
    topic_id=st.binary(min_size=16, max_size=16),
    name=st.text(min_size=1, max_size=249),
    index=st.integers(0, 2**31 - 1),
    numbers=st.tuples(offsets, offsets, offsets),
)
def test_it_is_byte_for_byte_the_same(
    version: int, topic_id: bytes, name: str, index: int, numbers: tuple[int, int, int]
) -> None:
    base_offset, append_time_ms, log_start_offset = numbers
    partition = PartitionProduceResponse(
        index=index,
        base_offset=base_offset,
        log_append_time_ms=append_time_ms,
        log_start_offset=log_start_offset,
    )
    topic = TopicProduceResponse(topic_id=topic_id, name=name, partition_responses=[partition])
    expected = bytes(encode(ProduceResponse(responses=[topic]), version))
    assert plain_answer(version, topic_id, name, partition) == expected
