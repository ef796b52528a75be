"""Bytes that lie: cut short, wrong lengths, wrong counts, unknown and broken tags.

Whatever comes, the answer is a message or a `ProtocolError`, and no memory is taken on the
word of a number in the frame.
"""

import contextlib
import tracemalloc
from random import Random

import pytest

from support.protocol_messages import EVERY_MESSAGE, versions_of
from support.random_messages import random_message
from tidelog.wire.protocol import ProtocolError, decode, decode_at, encode
from tidelog.wire.protocol.schemas.fetch_request import FetchRequest
from tidelog.wire.protocol.schemas.list_groups_request import ListGroupsRequest
from tidelog.wire.protocol.schemas.metadata_request import MetadataRequest, MetadataRequestTopic
from tidelog.wire.protocol.schemas.produce_request import ProduceRequest
from tidelog.wire.protocol.schemas.sasl_handshake_request import SaslHandshakeRequest
from tidelog.wire.protocol.source import Layouts
from tidelog.wire.protocol.varints import read_varint, varint

SAMPLE_BYTES_MAX = 600

by_name = pytest.mark.parametrize("message", EVERY_MESSAGE, ids=lambda kind: kind.__name__)


def sample(message, version: int, random: Random) -> bytes:
    """A random message that is neither trivial nor long."""
    best = b""
    for _ in range(8):
        data = encode(random_message(message, version, random), version)
        if len(best) < len(data) <= SAMPLE_BYTES_MAX or not best:
            best = data
    return best[:SAMPLE_BYTES_MAX]


@by_name
def test_a_message_cut_short_anywhere_is_refused(message):
    random = Random(message.__name__)
    for version in versions_of(message):
        data = sample(message, version, random)
        for length in range(len(data)):
            with pytest.raises(ProtocolError):
                decode(message, version, data[:length])


LIES = (
    b"\x7f\xff\xff\xff",  # int32: the greatest length
    b"\xff\xff\xff\xff",  # int32: null or negative
    b"\xff\xff\xff\xff\x07",  # varint: the greatest int32
    b"\xff\xff\xff\xff\xff\xff",  # varint: too long
    b"\x7f\xff",  # int16: the longest string
    b"\x00",
    b"\x7f",
)


@by_name
def test_a_lie_anywhere_gives_a_message_or_is_refused(message):
    random = Random(message.__name__)
    for version in {versions_of(message)[0], versions_of(message)[-1]}:
        data = sample(message, version, random)
        for position in range(len(data)):
            for lie in LIES:
                lied = data[:position] + lie + data[position + len(lie) :]
                with contextlib.suppress(ProtocolError):
                    _, end = decode_at(message, version, lied)
                    assert end <= len(lied)


@pytest.mark.parametrize("flips", [1, 8])
def test_flipped_bits_give_a_message_or_are_refused(flips):
    random = Random(flips)
    for message in EVERY_MESSAGE:
        for version in versions_of(message):
            data = bytearray(sample(message, version, random))
            for _ in range(flips if data else 0):
                data[random.randrange(len(data))] ^= 1 << random.randrange(8)
            with contextlib.suppress(ProtocolError):
                decode(message, version, data)


@by_name
def test_no_memory_is_taken_on_the_word_of_a_count(message):
    """Every place of a small frame claims the most that a number can; the frame decides."""
    random = Random(message.__name__)
    for version in {versions_of(message)[0], versions_of(message)[-1]}:
        data = sample(message, version, random)[:200]
        step = max(1, len(data) // 40)
        frames = [
            data[:position] + lie + data[position + len(lie) :]
            for position in range(0, len(data), step)
            for lie in (LIES[0], LIES[2], b"\xff\xff\xff\x01")
        ]
        for frame in frames[:1]:
            decode_or_refuse(message, version, frame)  # compiles
        tracemalloc.start()
        for frame in frames:
            decode_or_refuse(message, version, frame)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 256 * 1024, (message, version, peak)


def decode_or_refuse(message, version: int, frame: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        decode(message, version, frame)


def test_memory_grows_with_the_frame_and_not_with_its_claims():
    topics = [MetadataRequestTopic(name="") for _ in range(50000)]
    data = encode(MetadataRequest(topics=topics), 9)
    tracemalloc.start()
    request = decode(MetadataRequest, 9, data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(request.topics) == 50000
    assert peak < 64 * len(data), (peak, len(data))


@pytest.mark.parametrize(
    ("version", "data", "reason"),
    [
        (3, "ffff 0001 00007530 7fffffff", "2147483647 elements where 0 bytes"),
        (3, "ffff 0001 00007530 ffffffff", "-1 elements"),
        (3, "ffff 0001 00007530 00000001 7fff00000000", "a length of 32767 where 4 bytes"),
        (3, "ffff 0001 00007530 00000001 ffff00000000", "a length of -1"),
        (9, "00 0001 00007530 ffffffff0f", "elements where 0 bytes"),
        (9, "00 0001 00007530 00", "-1 elements"),
        (9, "00 0001 00007530 ffffffffffffffff", "more than 5 bytes"),
        (9, "00 0001 00007530 ffffffff7f", "does not fit into 32 bits"),
        (9, "00 0001 00007530 02 00", "elements where|a length of -1"),
        (9, "ffff7f", "a length of"),
        (9, "03 c328 0001 00007530 01 00", "utf-8"),
    ],
)
def test_the_reason_is_one_that_a_human_can_use(version, data, reason):
    with pytest.raises(ProtocolError, match=reason):
        decode(ProduceRequest, version, bytes.fromhex(data))


def test_counts_from_outside_do_not_fill_a_table():
    functions = Layouts("i", "pack")
    for count in range(1000):
        assert len(functions[count](*range(count))) == 4 * count
    assert len(functions) <= Layouts.KEPT_MAX + 1


def test_a_string_is_never_longer_than_kafka_allows():
    def with_transactional_id(length: int) -> bytes:
        return varint(length + 1) + b"x" * length + bytes.fromhex("0001 00007530 01 00")

    assert decode(ProduceRequest, 9, with_transactional_id(32767)).acks == 1
    with pytest.raises(ProtocolError, match="a length of 32768"):
        decode(ProduceRequest, 9, with_transactional_id(32768))


# ---- tags ----

EMPTY_LIST_GROUPS = encode(ListGroupsRequest(), 5)


def with_tags(*tags: tuple[int, bytes]) -> bytes:
    body = b"".join(varint(tag) + varint(len(value)) + value for tag, value in tags)
    return EMPTY_LIST_GROUPS[:-1] + varint(len(tags)) + body


@by_name
def test_unknown_tags_are_read_over(message):
    """Ours is the older software: a newer one may add tags to any struct (KIP-482)."""
    random = Random(message.__name__)
    for version in versions_of(message):
        if version not in message.__flexible__:
            continue
        said = random_message(message, version, random)
        data = encode(said, version)
        known = sum(row.tag is not None for row in message.__fields__)
        if known:
            continue
        assert data[-1] == 0, "the empty list of tagged fields ends every flexible message"
        more = data[:-1] + bytes.fromhex("02 63 03 aabbcc e807 00")
        heard, end = decode_at(message, version, more)
        assert heard == said
        assert end == len(more)


def test_unknown_tags_stand_between_known_ones():
    data = encode(FetchRequest(cluster_id="c"), 15)
    at = data.index(bytes.fromhex("01 00 02 0263"))
    mixed = data[:at] + bytes.fromhex("03 63 00 00 02 0263 7f 01 ff") + data[at + 5 :]
    assert decode(FetchRequest, 15, mixed) == FetchRequest(cluster_id="c")


def test_ten_thousand_tags_are_read_over():
    data = with_tags(*((1000 + number, b"x") for number in range(10000)))
    assert decode_at(ListGroupsRequest, 5, data) == (ListGroupsRequest(), len(data))


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_tags_that_end_too_late_are_refused(cut):
    data = with_tags((1000, b"12345"))
    with pytest.raises(ProtocolError):
        decode(ListGroupsRequest, 5, data[:-cut])


@pytest.mark.parametrize("count", [varint(3), varint(127), varint(2**31), varint(2**32 - 1)])
def test_more_tags_than_bytes_are_refused(count):
    with pytest.raises(ProtocolError, match="tagged fields in 2 bytes"):
        decode(ListGroupsRequest, 5, EMPTY_LIST_GROUPS[:-1] + count + b"\1\0")
    with pytest.raises(ProtocolError, match="elements where 2 bytes"):
        decode(FetchRequest, 15, encode(FetchRequest(), 15)[:-1] + count + b"\1\0")


def test_a_known_tag_has_the_size_that_it_announces():
    data = encode(FetchRequest(cluster_id="c"), 15)
    at = data.index(bytes.fromhex("01 00 02 0263"))
    for size in (1, 3):
        lied = data[: at + 2] + bytes([size]) + data[at + 3 :] + b"\0"
        with pytest.raises(ProtocolError, match="announced"):
            decode(FetchRequest, 15, lied)


def test_of_a_repeated_tag_the_last_counts():
    data = encode(FetchRequest(cluster_id="c"), 15)
    at = data.index(bytes.fromhex("01 00 02 0263"))
    twice = data[:at] + bytes.fromhex("02 00 02 0263 00 02 0264")
    assert decode(FetchRequest, 15, twice).cluster_id == "d"


# ---- trailing bytes ----


@by_name
def test_bytes_after_a_message_are_allowed(message):
    random = Random(message.__name__)
    for version in versions_of(message):
        said = random_message(message, version, random)
        data = encode(said, version)
        heard, end = decode_at(message, version, data + b"\1\0\0")
        assert heard == said
        assert end == len(data)


def test_a_message_may_begin_anywhere():
    data = b"header" + encode(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert decode(SaslHandshakeRequest, 1, data, 6).mechanism == "PLAIN"


@pytest.mark.parametrize(
    "value", [0, 1, 127, 128, 16383, 16384, 2**21 - 1, 2**21, 2**28, 2**32 - 1]
)
def test_varints_are_read_as_written(value):
    data = varint(value)
    assert read_varint(data, 0) == (value, len(data))
    for length in range(len(data)):
        with pytest.raises(IndexError):
            read_varint(data[:length], 0)
