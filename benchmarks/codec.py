"""What the codec costs, in microseconds of CPU time per message; best of several rounds.

    python benchmarks/codec.py

`by hand` is the least that Python can do for the same bytes: tuples instead of messages,
lengths unchecked, tagged fields refused. It is the yardstick for the compiled functions
and no part of the product.
"""

import struct
from collections.abc import Callable
from time import process_time

from tidelog.wire.protocol import codec
from tidelog.wire.protocol.apis import request_class, response_class
from tidelog.wire.protocol.message import Buffer, Message
from tidelog.wire.protocol.schemas.api_versions_response import ApiVersion, ApiVersionsResponse
from tidelog.wire.protocol.schemas.fetch_request import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.protocol.schemas.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from tidelog.wire.protocol.schemas.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.wire.protocol.schemas.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.protocol.schemas.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tidelog.wire.protocol.schemas.produce_response import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tidelog.wire.protocol.varints import read_varint, varint

ROUNDS = 15
ROUND_SECONDS = 0.02


def best_us(job: Callable[[], object]) -> float:
    count = 1
    while True:
        began = process_time()
        for _ in range(count):
            job()
        if process_time() - began > ROUND_SECONDS / 2:
            break
        count *= 2
    times = []
    for _ in range(ROUNDS):
        began = process_time()
        for _ in range(count):
            job()
        times.append((process_time() - began) / count)
    return min(times) * 1e6


def produce_request(partitions: int, size: int) -> ProduceRequest:
    data = [PartitionProduceData(index=n, records=bytes(size)) for n in range(partitions)]
    topics = [TopicProduceData(name="orders", partition_data=data)]
    return ProduceRequest(acks=-1, timeout_ms=30000, topic_data=topics)


def produce_response(partitions: int) -> ProduceResponse:
    answers = [PartitionProduceResponse(index=n, base_offset=n) for n in range(partitions)]
    return ProduceResponse(
        responses=[TopicProduceResponse(name="orders", partition_responses=answers)]
    )


def fetch_request(partitions: int) -> FetchRequest:
    wanted = [FetchPartition(partition=n, fetch_offset=n) for n in range(partitions)]
    return FetchRequest(topics=[FetchTopic(topic_id=bytes(range(16)), partitions=wanted)])


def fetch_response(partitions: int, size: int) -> FetchResponse:
    data = [
        PartitionData(partition_index=n, high_watermark=9, records=bytes(size))
        for n in range(partitions)
    ]
    topic = FetchableTopicResponse(topic_id=bytes(range(16)), partitions=data)
    return FetchResponse(responses=[topic])


def metadata_response(topics: int, partitions: int) -> MetadataResponse:
    replicas = (1, 2, 3)
    described = [
        MetadataResponsePartition(
            partition_index=n, leader_id=1, replica_nodes=replicas, isr_nodes=replicas
        )
        for n in range(partitions)
    ]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=n, host="broker", port=9092) for n in replicas],
        topics=[
            MetadataResponseTopic(name=f"topic-{n}", partitions=described) for n in range(topics)
        ],
    )


def offset_commit_request(partitions: int) -> OffsetCommitRequest:
    committed = [
        OffsetCommitRequestPartition(partition_index=n, committed_offset=n)
        for n in range(partitions)
    ]
    topic = OffsetCommitRequestTopic(name="orders", partitions=committed)
    return OffsetCommitRequest(group_id="group", topics=[topic])


def api_versions_response(keys: int) -> ApiVersionsResponse:
    return ApiVersionsResponse(api_keys=[ApiVersion(api_key=n, max_version=9) for n in range(keys)])


# ---- by hand ----

_PRODUCE = struct.Struct(">hi").unpack_from
_INT = struct.Struct(">i").unpack_from
_FETCH = struct.Struct(">iiiibii").unpack_from
_FETCH_PARTITION = struct.Struct(">iiqiqiB").unpack_from
_FETCHED = struct.Struct(">ihqqqBi").pack


def produce_by_hand(data: memoryview) -> object:
    position = 1  # no transactional id
    acks, timeout_ms = _PRODUCE(data, position)
    count, position = read_varint(data, position + 6)
    topics = []
    for _ in range(count - 1):
        length, position = read_varint(data, position)
        name = str(data[position : position + length - 1], "utf-8")
        inner, position = read_varint(data, position + length - 1)
        partitions = []
        for _ in range(inner - 1):
            (index,) = _INT(data, position)
            length, position = read_varint(data, position + 4)
            partitions.append((index, data[position : position + length - 1]))
            position += length
        topics.append((name, partitions))
        position += 1
    return acks, timeout_ms, topics


def fetch_by_hand(data: bytes) -> object:
    head = _FETCH(data, 0)
    position = 25
    count, position = read_varint(data, position)
    topics = []
    for _ in range(count - 1):
        topic_id = data[position : position + 16]
        inner, position = read_varint(data, position + 16)
        partitions = []
        for _ in range(inner - 1):
            partitions.append(_FETCH_PARTITION(data, position))
            position += 33
        topics.append((topic_id, partitions))
        position += 1
    return head, topics


def fetched_by_hand(topic_id: bytes, partitions: list[tuple[int, int, Buffer]]) -> list[Buffer]:
    parts: list[Buffer] = []
    out = bytearray(struct.pack(">ihi", 0, 0, 0) + varint(2) + topic_id)
    out += varint(len(partitions) + 1)
    for index, high_watermark, records in partitions:
        out += _FETCHED(index, 0, high_watermark, -1, -1, 0, -1)
        out += varint(len(records) + 1)
        parts.append(out)
        parts.append(records)
        out = bytearray(b"\0")
    out += b"\0\0"
    parts.append(out)
    return parts


# ---- the table ----


def case(name: str, message: Message, version: int, by_hand: str = "") -> None:
    data = codec.encode(message, version)
    kind = type(message)
    decoding = best_us(lambda: codec.decode(kind, version, data))
    encoding = best_us(lambda: codec.encode_parts(message, version))
    print(f"{name:38} {decoding:10.2f} {encoding:10.2f}   {by_hand}")


def main() -> None:
    print(f"{'case':38} {'decode':>10} {'encode':>10}   by hand")
    one, twenty = produce_request(1, 16384), produce_request(20, 16384)
    for name, message in (("1", one), ("20", twenty)):
        view = memoryview(codec.encode(message, 9))
        hand = best_us(lambda view=view: produce_by_hand(view))
        case(f"Produce request v9, {name} x 16 KiB", message, 9, f"decode {hand:.2f}")
    case("Produce response v9, 1", produce_response(1), 9)
    case("Produce response v9, 20", produce_response(20), 9)
    fetch = fetch_request(50)
    data = codec.encode(fetch, 13)
    hand = best_us(lambda: fetch_by_hand(data))
    case("Fetch request v13, 1", fetch_request(1), 13)
    case("Fetch request v13, 50", fetch, 13, f"decode {hand:.2f}")
    fetched = fetch_response(50, 1024)
    plain = [(p.partition_index, 9, p.records) for p in fetched.responses[0].partitions]
    hand = best_us(lambda: fetched_by_hand(bytes(16), plain))
    case("Fetch response v13, 1 x 1 KiB", fetch_response(1, 1024), 13)
    case("Fetch response v13, 50 x 1 KiB", fetched, 13, f"encode {hand:.2f}")
    build = best_us(lambda: fetch_response(50, 0))
    print(f"{'  building it':38} {'':10} {build:10.2f}")
    case("ApiVersions response v4, 70 keys", api_versions_response(70), 4)
    case("Metadata response v12, 100 x 6", metadata_response(100, 6), 12)
    case("OffsetCommit request v9, 50", offset_commit_request(50), 9)
    compiled = best_us(lambda: codec.decoder_source(request_class(1), 13))
    print(f"{'source of one function (Fetch request)':38} {compiled:10.2f}")
    assert response_class(1) is FetchResponse


if __name__ == "__main__":
    main()
