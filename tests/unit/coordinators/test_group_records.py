"""What stands in `__consumer_offsets`: Kafka's bytes, written down here by hand."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.coordinators.group_records import GROUP_RECORDS
from tidelog.core.coordination import TopicPartition
from tidelog.core.groups import records as r
from tidelog.wire.records import InvalidRecord


def text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">h", len(encoded)) + encoded


def blob(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


NULL_TEXT = struct.pack(">h", -1)
TOPIC_ID = bytes(range(16))
COMMITTED = r.OffsetCommit(
    "readers", TopicPartition("orders", 3), r.CommittedOffset(42, 7, "so far", 1_700_000_000_000)
)
MEMBER = r.ClassicMemberValue(
    "a-1", "static-a", "a", "/127.0.0.1", 60_000, 10_000, b"papers", b"share"
)
GENERATION = r.ClassicGroup(
    "readers",
    r.ClassicGroupValue("consumer", 5, "range", "a-1", 1_700_000_000_001, (MEMBER,)),
)


def test_a_committed_offset_has_the_bytes_that_kafka_gives_it() -> None:
    key, value = GROUP_RECORDS.encode(COMMITTED)
    assert key == struct.pack(">h", 1) + text("readers") + text("orders") + struct.pack(">i", 3)
    assert value == (
        struct.pack(">h", 3)
        + struct.pack(">qi", 42, 7)
        + text("so far")
        + struct.pack(">q", 1_700_000_000_000)
    )


def test_a_generation_has_the_bytes_that_kafka_gives_it() -> None:
    key, value = GROUP_RECORDS.encode(GENERATION)
    assert key == struct.pack(">h", 2) + text("readers")
    member = (
        text("a-1")
        + text("static-a")
        + text("a")
        + text("/127.0.0.1")
        + struct.pack(">ii", 60_000, 10_000)
        + blob(b"papers")
        + blob(b"share")
    )
    assert value == (
        struct.pack(">h", 3)
        + text("consumer")
        + struct.pack(">i", 5)
        + text("range")
        + text("a-1")
        + struct.pack(">qi", 1_700_000_000_001, 1)
        + member
    )


def test_a_group_without_members_has_neither_protocol_nor_leader() -> None:
    empty = r.ClassicGroup("readers", r.ClassicGroupValue("consumer", 6, None, None, 9, ()))
    _, value = GROUP_RECORDS.encode(empty)
    assert value == (
        struct.pack(">h", 3)
        + text("consumer")
        + struct.pack(">i", 6)
        + NULL_TEXT * 2
        + struct.pack(">qi", 9, 0)
    )


def test_the_epoch_of_a_consumer_group_is_written_in_a_flexible_form() -> None:
    key, value = GROUP_RECORDS.encode(r.ConsumerGroupEpoch("readers", 12))
    assert key == struct.pack(">h", 3) + text("readers")
    assert value == struct.pack(">h", 0) + struct.pack(">i", 12) + b"\0"  # no tagged fields


def test_offsets_of_old_brokers_are_read() -> None:
    """v1 has a time of expiry and no leader epoch; the key of an offset was once number 0."""
    key, _ = GROUP_RECORDS.encode(COMMITTED)
    value = struct.pack(">hq", 1, 42) + text("so far") + struct.pack(">qq", 17, 99)
    expected = r.CommittedOffset(42, -1, "so far", 17)
    for number in (0, 1):
        found = GROUP_RECORDS.decode(struct.pack(">h", number) + key[2:], value)
        assert found == COMMITTED._replace(value=expected)


@pytest.mark.parametrize(
    "record",
    [
        r.OffsetCommit("g", TopicPartition("t", 0), None),
        r.ClassicGroup("g", None),
        r.ConsumerGroupEpoch("g", None),
        r.ConsumerMember("g", "m", None),
        r.TargetAssignmentEpoch("g", None),
        r.TargetAssignment("g", "m", None),
        r.CurrentAssignment("g", "m", None),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_tombstone_has_a_key_and_no_value(record: object) -> None:
    key, value = GROUP_RECORDS.encode(record)
    assert value is None
    assert GROUP_RECORDS.decode(key, None) == record


@pytest.mark.parametrize(
    "record",
    [
        COMMITTED,
        GENERATION,
        r.ConsumerGroupEpoch("g", 3),
        r.ConsumerMember(
            "g",
            "m",
            r.ConsumerMemberValue(
                None, "rack", "client", "/::1", ("a", "b"), "a.*", 30_000, "uniform"
            ),
        ),
        r.TargetAssignmentEpoch("g", 0),
        r.TargetAssignment("g", "m", ()),
        r.TargetAssignment("g", "m", ((TOPIC_ID, (0, 2, 5)),)),
        r.CurrentAssignment(
            "g",
            "m",
            r.CurrentAssignmentValue(4, 3, 1, ((TOPIC_ID, (0,)),), ((TOPIC_ID, (1, 2)),)),
        ),
    ],
    ids=lambda record: type(record).__name__,
)
def test_what_is_written_is_read_again(record: object) -> None:
    key, value = GROUP_RECORDS.encode(record)
    assert value is not None
    assert GROUP_RECORDS.decode(key, value) == record


def test_kinds_that_a_later_version_wrote_are_passed_over() -> None:
    assert GROUP_RECORDS.decode(struct.pack(">h", 99) + b"whatever", b"") is None
    assert GROUP_RECORDS.decode(b"", None) is None


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_bytes_that_are_no_record_are_refused_and_nothing_worse(key: bytes, value: bytes) -> None:
    for number in (1, 2, 3, 5, 6, 7, 8):
        try:
            GROUP_RECORDS.decode(struct.pack(">h", number) + key, value)
        except InvalidRecord:
            continue
