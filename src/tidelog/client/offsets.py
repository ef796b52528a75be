"""Where a partition begins and ends, what lies at a time, and cutting its beginning off."""

from typing import NamedTuple

from tidelog.client.client import Client
from tidelog.client.errors import KafkaError, check
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
