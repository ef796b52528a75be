"""ListOffsets and OffsetForLeaderEpoch over real sockets."""

from pathlib import Path

import pytest

from support import loopback
from support.batches import batch
from support.fed_brokers import FedCluster, fed_brokers, registration, topic_id, topic_records
from tidelog.core.errors import Error
from tidelog.core.metadata import records as r
from tidelog.wire.protocol.schemas.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tidelog.wire.protocol.schemas.list_offsets_response import ListOffsetsResponse
from tidelog.wire.protocol.schemas.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tidelog.wire.protocol.schemas.offset_for_leader_epoch_response import (
    OffsetForLeaderEpochResponse,
)

NEWEST = 11
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
TIMES_MS = (1000, 3000, 2000)


async def listed(cluster: FedCluster, timestamp: int, version: int = NEWEST, **asked):
    """(error, timestamp, offset, leader epoch) of one question."""
    topic, index = asked.pop("topic", "tides"), asked.pop("index", 0)
    wanted = ListOffsetsPartition(
        partition_index=index,
        current_leader_epoch=asked.pop("epoch", -1),
        timestamp=timestamp,
    )
    repeats = asked.pop("repeats", 1)
    request = ListOffsetsRequest(
        replica_id=asked.pop("replica_id", -1),
        topics=[ListOffsetsTopic(name=topic, partitions=[wanted] * repeats)],
        **asked,
    )
    answer = await cluster.members[1].ask(request, version)
    assert isinstance(answer, ListOffsetsResponse)
    found = answer.topics[0].partitions[0]
    return found.error_code, found.timestamp, found.offset, found.leader_epoch


def led(data: Path, story) -> None:
    """Broker 1 leads three records at TIMES_MS, all committed."""

    async def told() -> None:
        async with fed_brokers(data, 1) as cluster:
            cluster.commit(*topic_records("tides", replicas=(1,)))
            hosted = cluster.hosted(1, "tides")
            for time_ms in TIMES_MS:
                hosted.log.append_as_leader(batch(b"x", time_ms=time_ms), 0)
            cluster[1].replicas.perform(hosted, hosted.leader.on_appended(cluster[1].now_ms()))
            await story(cluster)

    loopback.run(told)


@pytest.mark.parametrize("version", range(1, NEWEST + 1))
def test_start_end_and_times_of_a_log_in_every_version(tmp_path: Path, version: int) -> None:
    async def story(cluster: FedCluster) -> None:
        epoch = 0 if version >= 4 else -1
        assert await listed(cluster, EARLIEST, version) == (0, -1, 0, epoch)
        assert await listed(cluster, LATEST, version) == (0, -1, 3, epoch)
        assert await listed(cluster, 1500, version) == (0, 3000, 1, epoch)
        assert await listed(cluster, 3001, version) == (0, -1, -1, -1)

    led(tmp_path, story)


def test_special_times_exist_from_their_version_on(tmp_path: Path) -> None:
    async def story(cluster: FedCluster) -> None:
        cluster.hosted(1, "tides").log.raise_log_start(1)
        assert await listed(cluster, MAX_TIMESTAMP) == (0, 3000, 1, 0)
        assert await listed(cluster, EARLIEST_LOCAL) == (0, -1, 1, 0)
        assert await listed(cluster, LATEST_TIERED) == (0, -1, -1, -1)
        unsupported = (Error.UNSUPPORTED_VERSION, -1, -1, -1)
        assert await listed(cluster, MAX_TIMESTAMP, 6) == unsupported
        assert await listed(cluster, EARLIEST_LOCAL, 7) == unsupported
        assert await listed(cluster, -7) == unsupported

    led(tmp_path, story)


def test_what_cannot_be_said_is_refused(tmp_path: Path) -> None:
    async def story(cluster: FedCluster) -> None:
        unknown = Error.UNKNOWN_TOPIC_OR_PARTITION
        assert (await listed(cluster, LATEST, topic="no"))[0] == unknown
        assert (await listed(cluster, LATEST, index=5))[0] == unknown
        assert (await listed(cluster, 0, epoch=3))[0] == Error.UNKNOWN_LEADER_EPOCH
        assert (await listed(cluster, LATEST, repeats=2))[0] == Error.INVALID_REQUEST
        cluster.commit(r.PartitionChange(0, topic_id("tides"), leader=-1))
        assert (await listed(cluster, LATEST))[0] == Error.NOT_LEADER_OR_FOLLOWER
        assert (await listed(cluster, LATEST, epoch=0))[0] == Error.FENCED_LEADER_EPOCH
        # A debugger may look at any replica.
        assert (await listed(cluster, LATEST, replica_id=-2))[::2] == (0, 3)

    led(tmp_path, story)


def test_a_client_is_not_told_what_may_yet_go_back(tmp_path: Path) -> None:
    """A new leader that has not heard from the ISR: KIP-207."""

    async def story(cluster: FedCluster) -> None:
        cluster.commit(registration(2, 9002))
        cluster.commit(
            r.PartitionChange(0, topic_id("tides"), replicas=(1, 2), isr=(1, 2), leader=-1)
        )
        hosted = cluster.hosted(1, "tides")
        hosted.replica.high_watermark = 1  # all that it knew as a follower
        cluster.commit(r.PartitionChange(0, topic_id("tides"), leader=1))
        assert (await listed(cluster, LATEST))[0] == Error.OFFSET_NOT_AVAILABLE
        assert (await listed(cluster, LATEST, 4))[0] == Error.LEADER_NOT_AVAILABLE
        assert (await listed(cluster, 2500))[0] == Error.OFFSET_NOT_AVAILABLE
        assert (await listed(cluster, 500))[::2] == (0, 0)
        assert (await listed(cluster, LATEST, replica_id=2))[::2] == (0, 3)

    led(tmp_path, story)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_client_learns_where_an_epoch_ended(tmp_path: Path, version: int) -> None:
    async def story(cluster: FedCluster) -> None:
        for leader in (-1, 1):
            cluster.commit(r.PartitionChange(0, topic_id("tides"), leader=leader))
        cluster.append(1, "tides", b"later")

        async def end_of(epoch: int, current: int = -1, topic: str = "tides"):
            wanted = OffsetForLeaderPartition(
                partition=0, current_leader_epoch=current, leader_epoch=epoch
            )
            topics = [OffsetForLeaderTopic(topic=topic, partitions=[wanted])]
            request = OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)
            answer = await cluster.members[1].ask(request, version)
            assert isinstance(answer, OffsetForLeaderEpochResponse)
            found = answer.topics[0].partitions[0]
            return found.error_code, found.leader_epoch, found.end_offset

        assert await end_of(0) == (0, 0, 3)
        assert await end_of(1) == (0, 0, 3)
        assert await end_of(2, current=2) == (0, 2, 4)
        assert await end_of(9) == (0, -1, -1)
        assert await end_of(0, current=1) == (Error.FENCED_LEADER_EPOCH, -1, -1)
        assert (await end_of(0, topic="no"))[0] == Error.UNKNOWN_TOPIC_OR_PARTITION

    led(tmp_path, story)
