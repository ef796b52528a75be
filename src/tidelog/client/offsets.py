"""Where a partition begins and ends, what lies at a time, and cutting its beginning off."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tidelog.client.client import Client
from tidelog.client.errors import KafkaError, check
from tidelog.client.view import PartitionView
from tidelog.core.errors import Error
from tidelog.wire.protocol.schemas.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.wire.protocol.schemas.delete_records_response import DeleteRecordsResponse
from tidelog.wire.protocol.schemas.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.wire.protocol.schemas.list_offsets_response import ListOffsetsResponse

TopicPartition = tuple[str, int]

EARLIEST = -2
LATEST = -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
NOTHING = -1


class FoundOffset(NamedTuple):
    offset: int
    """-1: there is nothing at or after that time."""
    timestamp_ms: int
    leader_epoch: int


async def leader_of(client: Client, topic: str, index: int) -> tuple[int, int]:
    """(broker, leader epoch); LEADER_NOT_AVAILABLE if nobody leads."""
    partition = await client.partition(topic, index)
    if partition.leader is None:
        raise KafkaError(Error.LEADER_NOT_AVAILABLE, f"nobody leads {topic}-{index}")
    return partition.leader, partition.leader_epoch


async def find_offset(
    client: Client, topic: str, index: int, time_ms: int, *, isolation: int = READ_UNCOMMITTED
) -> FoundOffset:
    """The first offset at or after a time; EARLIEST and LATEST are times too."""

    async def ask() -> FoundOffset:
        leader, epoch = await leader_of(client, topic, index)
        part = ListOffsetsPartition(
            partition_index=index, current_leader_epoch=epoch, timestamp=time_ms
        )
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation,
            topics=[ListOffsetsTopic(name=topic, partitions=[part])],
            timeout_ms=client.timeout_ms,
        )
        answer = await client.ask_broker(leader, request, ListOffsetsResponse)
        found = answer.topics[0].partitions[0]
        check(found.error_code, f"{topic}-{index}")
        return FoundOffset(found.offset, found.timestamp, found.leader_epoch)

    return await client.retrying(ask)


async def find_offsets(
    client: Client,
    times_ms: Mapping[TopicPartition, int],
    *,
    isolation: int = READ_UNCOMMITTED,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, FoundOffset]:
    """As `find_offset` for many partitions at once, each with a time of its own: one question per
    leader. KafkaError if one of them is not there."""

    async def ask() -> dict[TopicPartition, FoundOffset]:
        by_leader: dict[int, list[PartitionView]] = {}
        for topic, index in times_ms:
            partition = await client.partition(topic, index)
            if partition.leader is None:
                raise KafkaError(Error.LEADER_NOT_AVAILABLE, f"nobody leads {topic}-{index}")
            by_leader.setdefault(partition.leader, []).append(partition)
        return await _found(client, by_leader, times_ms, isolation)

    return await client.retrying(ask, timeout_ms=timeout_ms)


async def end_offsets(
    client: Client, partitions: Iterable[TopicPartition], *, isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, int]:
    """Where these partitions end, one question per leader. Those that are gone, or that nobody
    leads, are left out."""
    wanted = dict.fromkeys(partitions, LATEST)

    async def ask() -> dict[TopicPartition, int]:
        topics = await client.topics(sorted({topic for topic, _ in wanted})) if wanted else {}
        by_leader: dict[int, list[PartitionView]] = {}
        for topic in topics.values():
            for each in topic.partitions:
                if each.leader is not None and (each.topic, each.partition) in wanted:
                    by_leader.setdefault(each.leader, []).append(each)
        found = await _found(client, by_leader, wanted, isolation)
        return {where: each.offset for where, each in found.items()}

    return await client.retrying(ask)


async def _found(
    client: Client,
    by_leader: Mapping[int, list[PartitionView]],
    times_ms: Mapping[TopicPartition, int],
    isolation: int,
) -> dict[TopicPartition, FoundOffset]:
    answers = await asyncio.gather(
        *(_found_by(client, leader, led, times_ms, isolation) for leader, led in by_leader.items())
    )
    return {where: found for answer in answers for where, found in answer.items()}


async def _found_by(
    client: Client,
    leader: int,
    led: list[PartitionView],
    times_ms: Mapping[TopicPartition, int],
    isolation: int,
) -> dict[TopicPartition, FoundOffset]:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for each in led:
        part = ListOffsetsPartition(
            partition_index=each.partition,
            current_leader_epoch=each.leader_epoch,
            timestamp=times_ms[each.topic, each.partition],
        )
        topics.setdefault(each.topic, []).append(part)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=name, partitions=parts) for name, parts in topics.items()],
        timeout_ms=client.timeout_ms,
    )
    answer = await client.ask_broker(leader, request, ListOffsetsResponse)
    offsets: dict[TopicPartition, FoundOffset] = {}
    for topic in answer.topics:
        for found in topic.partitions:
            check(found.error_code, f"{topic.name}-{found.partition_index}")
            offsets[topic.name, found.partition_index] = FoundOffset(
                found.offset, found.timestamp, found.leader_epoch
            )
    return offsets


async def trim(client: Client, topic: str, index: int, before_offset: int) -> int:
    """Delete the records before an offset (-1: all that are committed); the new log start."""

    async def ask() -> int:
        leader, _ = await leader_of(client, topic, index)
        part = DeleteRecordsPartition(partition_index=index, offset=before_offset)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic, partitions=[part])], timeout_ms=client.timeout_ms
        )
        answer = await client.ask_broker(
            leader, request, DeleteRecordsResponse, timeout_ms=client.timeout_ms
        )
        result = answer.topics[0].partitions[0]
        check(result.error_code, f"{topic}-{index}")
        return result.low_watermark

    return await client.retrying(ask)
