"""Headers and whole frames, as real clients send them."""

from pathlib import Path
from random import Random

import pytest

from support.protocol_messages import every_exchange
from support.random_messages import random_message
from tidelog.wire import records
from tidelog.wire.protocol import (
    APIS,
    ProtocolError,
    RequestHeader,
    UnsupportedVersion,
    decode_at,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    read_request_header,
    read_response_header,
    request_class,
)
from tidelog.wire.protocol.schemas.api_versions_response import ApiVersion, ApiVersionsResponse
from tidelog.wire.protocol.schemas.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from tidelog.wire.protocol.schemas.metadata_request import MetadataRequest
from tidelog.wire.protocol.schemas.produce_request import ProduceRequest

GOLDEN = Path(__file__).parent / "golden"


def golden_frames():
    for path in sorted(GOLDEN.glob("*.txt")):
        for line in path.read_text("utf-8").splitlines():
            if not line.startswith("#"):
                name, version, frame = line.split()
                label = f"{path.stem}-{name}-{version}-{len(frame) // 2}"
                yield pytest.param(name, int(version), bytes.fromhex(frame), id=label)


@pytest.mark.parametrize(("name", "version", "frame"), list(golden_frames()))
def test_a_clients_request_is_understood_and_written_the_same_way(name, version, frame):
    header, position = read_request_header(frame)
    (api,) = (api for api in APIS if api.name == name)
    assert header[:2] == (api.key, version)
    assert header.client_id in ("golden", None)
    request, end = decode_at(request_class(api.key), version, frame, position)
    assert b"".join(encode_request(header, request)) == frame[:end]


def golden(path: str, name: str, *, longest: bool = True) -> bytes:
    frames = [
        bytes.fromhex(line.split()[2])
        for line in (GOLDEN / f"{path}.txt").read_text("utf-8").splitlines()
        if line.startswith(name + " ")
    ]
    return sorted(frames, key=len)[-1 if longest else 0]


def test_librdkafka_sends_three_bytes_too_many_when_it_asks_for_all_topics():
    header, request = decode_request(golden("librdkafka", "Metadata", longest=False))
    assert header == RequestHeader(3, 13, header.correlation_id, "golden")
    assert isinstance(request, MetadataRequest)
    assert request.topics is None


@pytest.mark.parametrize("client", ["librdkafka", "kafka_python", "aiokafka"])
def test_the_records_of_a_produce_request_can_be_read_in_place(client):
    _, request = decode_request(golden(client, "Produce"))
    assert isinstance(request, ProduceRequest)
    (topic,) = request.topic_data
    (partition,) = topic.partition_data
    assert topic.name == "orders"
    assert [record.value for record in records.decode(partition.records)] == [b"v"]


def test_requests_and_responses_of_every_version_survive_a_frame():
    random = Random(1)
    for exchange in every_exchange():
        message = random_message(exchange.message, exchange.version, random)
        if exchange.direction == "request":
            client_id = random.choice((None, "", "zürich"))
            header = RequestHeader(exchange.key, exchange.version, 77, client_id)
            frame = b"".join(encode_request(header, message))
            assert decode_request(frame) == (header, message)
        else:
            frame = b"".join(encode_response(77, message, exchange.version))
            assert decode_response(frame, exchange.key, exchange.version) == (77, message)


def test_the_answer_to_api_versions_has_the_old_header_in_every_version():
    response = ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, max_version=4)])
    for version in range(5):
        frame = b"".join(encode_response(7, response, version))
        assert read_response_header(frame, 18, version) == (7, 4)


def test_flexible_responses_have_a_header_with_tags():
    assert read_response_header(bytes.fromhex("00000007 00"), 3, 9) == (7, 5)
    assert read_response_header(bytes.fromhex("00000007 01 05 02 aabb"), 3, 9) == (7, 9)
    assert read_response_header(bytes.fromhex("00000007 00"), 3, 8) == (7, 4)


def test_records_stay_out_of_the_frame_buffers():
    batches = memoryview(bytes(100_000))
    data = [PartitionData(partition_index=0, records=batches)]
    response = FetchResponse(responses=[FetchableTopicResponse(partitions=data)])
    parts = encode_response(5, response, 13)
    assert parts[1] is batches
    assert int.from_bytes(parts[0][:4], "big") == 5


def test_a_request_from_the_future_still_says_who_asks():
    frame = bytes.fromhex("0012 0063 00000009 0003 6a766d 00") + b"whatever it means by then"
    header, _ = read_request_header(frame)
    assert header == RequestHeader(18, 99, 9, "jvm")
    with pytest.raises(UnsupportedVersion, match="v99"):
        decode_request(frame)


@pytest.mark.parametrize("key", [-1, 4, 71, 72, 32767])
def test_an_unknown_api_is_refused(key):
    frame = key.to_bytes(2, "big", signed=True) + bytes(20)
    with pytest.raises(UnsupportedVersion, match=f"API {key} "):
        read_request_header(frame)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_produce_requests_are_advertised_and_refused(version):
    frame = bytes.fromhex(f"0000 000{version} 00000001 ffff 0001 00000000 00000000")
    with pytest.raises(UnsupportedVersion, match="ProduceRequest"):
        decode_request(frame)


def test_a_header_cut_short_is_refused():
    frame = bytes.fromhex("0003 0009 00000001 0003 616263 01 05 02 aabb 00 01 00 00 00")
    whole, position = read_request_header(frame)
    assert whole == RequestHeader(3, 9, 1, "abc")
    for length in range(position):
        with pytest.raises(ProtocolError):
            read_request_header(frame[:length])
    for length in range(5):
        with pytest.raises(ProtocolError):
            read_response_header(bytes.fromhex("00000007 00")[:length], 3, 9)


@pytest.mark.parametrize("client_id", ["7fff", "0004 616263", "0002 c328"])
def test_a_client_id_that_lies_is_refused(client_id):
    with pytest.raises(ProtocolError):
        read_request_header(bytes.fromhex(f"0003 0001 00000001 {client_id}"))
