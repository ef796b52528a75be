"""The disks of brokers: how much is free, and whether that is too little for records."""

from typing import NamedTuple

from tidelog.client.admin import BROKER_RESOURCE, Admin
from tidelog.client.client import Client
from tidelog.client.errors import ClientError, check
from tidelog.host.disk_space import default_reserve_bytes
from tidelog.host.ports import NetworkError
from tidelog.wire.protocol.schemas.describe_log_dirs_request import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from tidelog.wire.protocol.schemas.describe_log_dirs_response import DescribeLogDirsResponse

RESERVE = "tidelog.disk.reserve.bytes"


class FullDisk(NamedTuple):
    """A log directory whose broker takes no records into it."""

    broker: int
    log_dir: str
    usable_bytes: int
    total_bytes: int

    def __str__(self) -> str:
        return (
            f"the disk of {self.log_dir} on broker {self.broker} is full:"
            f" {self.usable_bytes:,} of {self.total_bytes:,} bytes are free"
        )


async def full_disks(
    client: Client, broker_id: int, partition: tuple[str, int] | None = None
) -> tuple[FullDisk, ...]:
    """Of one broker, or only the one that has this partition. Empty if nobody tells."""
    topics = None
    if partition is not None:
        topics = [DescribableLogDirTopic(topic=partition[0], partitions=[partition[1]])]
    try:
        answer = await client.ask_broker(
            broker_id, DescribeLogDirsRequest(topics=topics), DescribeLogDirsResponse
        )
        check(answer.error_code)
        told = [
            FullDisk(broker_id, each.log_dir, each.usable_bytes, each.total_bytes)
            for each in answer.results
            if each.total_bytes >= 0 and (partition is None or each.topics)
        ]
        reserve_bytes = await _reserve_bytes(client, broker_id) if told else 0
    except (ClientError, NetworkError):
        return ()
    return tuple(each for each in told if _is_full(each, reserve_bytes))


def _is_full(disk: FullDisk, reserve_bytes: int) -> bool:
    """-1: what a broker keeps if it is told nothing."""
    if reserve_bytes < 0:
        reserve_bytes = default_reserve_bytes(disk.total_bytes)
    return disk.usable_bytes < max(reserve_bytes, 1)


async def _reserve_bytes(client: Client, broker_id: int) -> int:
    settings = await Admin(client).configs(BROKER_RESOURCE, str(broker_id))
    return next((int(each.value or -1) for each in settings if each.name == RESERVE), -1)
