"""Every message in every version: what goes in comes out, and kio writes the same bytes."""

from random import Random

import pytest

from support import kio_oracle
from support.protocol_messages import (
    DATA,
    EVERY_MESSAGE,
    REQUESTS,
    RESPONSES,
    every_exchange,
    versions_of,
)
from support.random_messages import random_message
from tidelog.wire.protocol import (
    ZERO_UUID,
    ProtocolError,
    UnsupportedVersion,
    codec,
    decode,
    decode_at,
    encode,
    encode_parts,
)
from tidelog.wire.protocol.decoding import decoder_source
from tidelog.wire.protocol.schemas.fetch_request import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.protocol.schemas.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
    SnapshotId,
)
from tidelog.wire.protocol.schemas.fetch_snapshot_response import FetchSnapshotResponse
from tidelog.wire.protocol.schemas.metadata_request import MetadataRequest, MetadataRequestTopic
from tidelog.wire.protocol.schemas.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.protocol.schemas.sasl_authenticate_request import SaslAuthenticateRequest

EACH = 4  # random messages per type; `make codec-proof` takes many more

by_name = pytest.mark.parametrize("message", EVERY_MESSAGE, ids=lambda kind: kind.__name__)


@by_name
def test_what_is_encoded_is_decoded_again(message):
    random = Random(message.__name__)
    for version in versions_of(message):
        for _ in range(EACH):
            said = random_message(message, version, random)
            data = encode(said, version)
            heard, end = decode_at(message, version, data)
            assert heard == said
            assert end == len(data)


@pytest.mark.parametrize("direction", ["request", "response"])
def test_kio_writes_the_same_bytes(direction):
    random = Random(direction)
    for exchange in every_exchange():
        if exchange.direction == direction:
            theirs = kio_oracle.load(exchange.key, exchange.version, direction)
            compare_with_kio(theirs, exchange.message, exchange.version, random)


@pytest.mark.parametrize("name", DATA)
def test_kio_writes_the_same_control_records_and_consumer_metadata(name):
    random = Random(name)
    for version, theirs in kio_oracle.load_data(name).items():
        compare_with_kio(theirs, DATA[name], version, random)


def compare_with_kio(theirs, ours, version, random):
    for _ in range(EACH):
        entity = kio_oracle.random_entity(theirs, random)
        message = kio_oracle.to_ours(entity, ours)
        data = kio_oracle.encoded(entity)
        assert encode(message, version) == data, (ours, version, message)
        assert decode(ours, version, data) == message


def test_every_version_that_kio_knows_is_covered():
    for exchange in every_exchange():
        known = kio_oracle.versions(exchange.key, exchange.direction)
        assert known == set(versions_of(exchange.message)), exchange


@by_name
def test_a_version_outside_the_schema_is_refused(message):
    for version in (versions_of(message)[0] - 1, versions_of(message)[-1] + 1):
        with pytest.raises(UnsupportedVersion, match=message.__name__):
            decode(message, version, bytes(100))


# ---- records ----


def produce(*batches: bytes) -> ProduceRequest:
    data = [PartitionProduceData(index=n, records=batch) for n, batch in enumerate(batches)]
    return ProduceRequest(
        acks=-1, topic_data=[TopicProduceData(name="orders", partition_data=data)]
    )


def test_records_of_a_request_are_a_view_of_the_receive_buffer():
    received = bytearray(encode(produce(b"first batch", b"second batch"), 9))
    request = decode(ProduceRequest, 9, memoryview(received))
    first, second = (data.records for data in request.topic_data[0].partition_data)
    assert isinstance(first, memoryview)
    second[:6] = b"SECOND"  # a leader stamps offsets in place
    assert b"SECOND batch" in received
    assert first == b"first batch"


def test_records_of_a_response_are_parts_of_their_own():
    batches = [bytearray(b"a" * 20000), memoryview(b"b" * 300), b"", None]
    data = [PartitionData(partition_index=n, records=batch) for n, batch in enumerate(batches)]
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=data)])
    parts = encode_parts(response, 12)
    assert [id(part) for part in parts[1::2]] == [id(batches[0]), id(batches[1])]
    assert b"".join(parts) == encode(response, 12)
    assert decode(FetchResponse, 12, encode(response, 12)) == response


def test_everything_but_records_outlives_the_receive_buffer():
    for message in (*REQUESTS, *RESPONSES):
        if message.__holds_records__:
            continue
        version = versions_of(message)[-1]
        said = random_message(message, version, Random(message.__name__))
        received = bytearray(encode(said, version))
        heard = decode(message, version, received)
        received.clear()  # BufferError, if a view of it were left
        assert heard == said


def test_messages_with_records_are_the_ones_we_know_of():
    holding = {message.__name__ for message in EVERY_MESSAGE if message.__holds_records__}
    assert holding == {"ProduceRequest", "FetchResponse", "FetchSnapshotResponse"}
    assert FetchSnapshotResponse.__holds_records__


# ---- versions in one class ----


def test_a_field_that_a_version_lacks_has_its_default():
    request = FetchRequest(
        replica_id=3,
        rack_id="north",
        topics=[
            FetchTopic(
                topic="orders",
                topic_id=bytes(range(16)),
                partitions=[FetchPartition(fetch_offset=5, last_fetched_epoch=4)],
            )
        ],
    )
    old = decode(FetchRequest, 4, encode(request, 4))
    assert (old.replica_id, old.rack_id, old.session_epoch) == (3, "", -1)
    assert (old.topics[0].topic, old.topics[0].topic_id) == ("orders", ZERO_UUID)
    assert old.topics[0].partitions[0].last_fetched_epoch == -1
    new = decode(FetchRequest, 18, encode(request, 18))
    assert (new.replica_id, new.rack_id) == (-1, "north")
    assert (new.topics[0].topic, new.topics[0].topic_id) == ("", bytes(range(16)))
    assert new.topics[0].partitions[0].high_watermark == 2**63 - 1


def test_a_tagged_field_with_its_default_is_not_sent():
    def size(**fields):
        partition = PartitionData(**fields)
        topic = FetchableTopicResponse(partitions=[partition])
        return len(encode(FetchResponse(responses=[topic]), 16))

    plain = size()
    assert size(diverging_epoch=EpochEndOffset(), snapshot_id=SnapshotId()) == plain
    # tag, size, epoch, end offset, no tags in the struct
    assert size(diverging_epoch=EpochEndOffset(epoch=3, end_offset=7)) == plain + 2 + 13


def test_tags_are_written_in_ascending_order():
    partition = PartitionData(
        snapshot_id=SnapshotId(end_offset=1, epoch=2),
        diverging_epoch=EpochEndOffset(epoch=3, end_offset=4),
    )
    data = encode(FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])]), 16)
    tags = bytes.fromhex("02 00 0d 00000003 0000000000000004 00 02 0d 0000000000000001 00000002 00")
    assert tags in data


def test_null_and_empty_are_different_things():
    everything, nothing = MetadataRequest(topics=None), MetadataRequest(topics=[])
    assert decode(MetadataRequest, 12, encode(everything, 12)).topics is None
    assert list(decode(MetadataRequest, 12, encode(nothing, 12)).topics) == []


# ---- what cannot be encoded ----


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize(
    "request_",
    [
        ProduceRequest(acks=40000),
        ProduceRequest(acks=None),
        ProduceRequest(acks="all"),
        ProduceRequest(transactional_id="x" * 32768),
        ProduceRequest(transactional_id="\ud800"),
        ProduceRequest(topic_data=None),
        ProduceRequest(topic_data=[TopicProduceData(name=None)]),
        ProduceRequest(topic_data=["orders"]),
    ],
    ids=str,
)
def test_what_does_not_fit_the_schema_is_refused(request_, version):
    with pytest.raises(ProtocolError, match=f"ProduceRequest.* v{version}|ProduceRequest.trans"):
        encode(request_, version)


def test_a_uuid_has_sixteen_bytes():
    request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=b"short")])
    with pytest.raises(ProtocolError, match="not a UUID"):
        encode(request, 12)


def test_a_string_of_the_greatest_length_is_fine():
    for version in (8, 9):
        request = ProduceRequest(transactional_id="x" * 32767)
        assert decode(ProduceRequest, version, encode(request, version)) == request


# ---- the classes ----


def test_messages_say_what_differs_from_the_defaults():
    assert repr(FetchPartition(partition=4)) == "FetchPartition(partition=4)"
    assert FetchPartition(partition=4) != FetchPartition(partition=5)
    assert FetchTopic(partitions=[]) == FetchTopic(partitions=())


def test_messages_show_no_secrets_and_no_megabytes():
    assert "tide" not in repr(SaslAuthenticateRequest(auth_bytes=b"\0user\0tide"))
    assert repr(PartitionData(records=bytes(10**6))) == "PartitionData(records=<1000000 bytes>)"


def test_a_misspelt_field_is_refused():
    with pytest.raises(TypeError, match="fetch_ofset"):
        FetchPartition(fetch_ofset=4)
    with pytest.raises(AttributeError):
        FetchPartition().fetch_ofset = 4


def test_functions_are_compiled_once_and_their_source_can_be_read():
    assert codec.decoder(FetchRequest, 12) is codec.decoder(FetchRequest, 12)
    text, _ = decoder_source(FetchRequest, 12)
    assert ".partition, o" in text
