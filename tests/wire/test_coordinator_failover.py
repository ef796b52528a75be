"""The coordinator of a group moves to another broker: three of them that really replicate."""

import asyncio
from pathlib import Path

from support.fed_brokers import FedCluster, fed_brokers, topic_id, topic_records
from support.loopback import run
from tidelog.broker.api_table import handlers
from tidelog.broker.coordination.internal_topics import CONSUMER_OFFSETS
from tidelog.core.metadata import records as r
from tidelog.wire.protocol.schemas.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.protocol.schemas.offset_commit_response import OffsetCommitResponse
from tidelog.wire.protocol.schemas.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from tidelog.wire.protocol.schemas.offset_fetch_response import OffsetFetchResponse

TOPIC = "orders"


def prepare(cluster: FedCluster) -> None:
    cluster.commit(*topic_records(TOPIC, replicas=(1,)))
    cluster.commit(*topic_records(CONSUMER_OFFSETS, replicas=(1, 2, 3)))


def move(cluster: FedCluster, leader: int, isr: tuple[int, ...]) -> None:
    cluster.commit(r.PartitionChange(0, topic_id(CONSUMER_OFFSETS), isr=isr, leader=leader))


async def commit(cluster: FedCluster, broker_id: int, offset: int) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    request = OffsetCommitRequest(group_id="readers", topics=[topic])
    answer = await cluster.members[broker_id].ask(request, 9)
    assert isinstance(answer, OffsetCommitResponse)
    return answer.topics[0].partitions[0].error_code


async def committed(cluster: FedCluster, broker_id: int) -> tuple[int, list[int]]:
    wanted = OffsetFetchRequestGroup(group_id="readers", topics=None)
    answer = await cluster.members[broker_id].ask(OffsetFetchRequest(groups=[wanted]), 9)
    assert isinstance(answer, OffsetFetchResponse)
    (group,) = answer.groups
    return group.error_code, [each.partitions[0].committed_offset for each in group.topics]


def test_the_next_coordinator_has_every_offset_that_was_acknowledged(tmp_path: Path) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2, 3, apis=handlers) as cluster:
            prepare(cluster)
            for offset in (5, 6, 7):
                assert await commit(cluster, 1, offset) == 0
            assert await committed(cluster, 2) == (16, [])
            move(cluster, 2, (2, 3))
            assert await committed(cluster, 2) == (0, [7])
            assert await committed(cluster, 1) == (16, [])
            assert await commit(cluster, 1, 99) == 16
            assert await commit(cluster, 2, 8) == 0
            move(cluster, 3, (2, 3))
            assert await committed(cluster, 3) == (0, [8])

    run(story)


def test_a_commit_that_the_followers_do_not_have_is_not_acknowledged(tmp_path: Path) -> None:
    async def story() -> None:
        async with fed_brokers(tmp_path, 1, 2, 3, apis=handlers) as cluster:
            prepare(cluster)
            assert await commit(cluster, 1, 5) == 0
            for follower in (2, 3):
                await cluster[follower].fetchers.stop()
            waiting = asyncio.ensure_future(commit(cluster, 1, 6))
            end = cluster.log_end(1, CONSUMER_OFFSETS)
            while cluster.log_end(1, CONSUMER_OFFSETS) == end:
                await asyncio.sleep(0.001)
            looking = asyncio.ensure_future(committed(cluster, 1))
            for _ in range(3):
                await cluster.members[1].ask(OffsetFetchRequest(), 9)  # others are served
            assert not waiting.done(), "a failover could lose it"
            assert not looking.done(), "it has seen what a failover could lose"
            move(cluster, 2, (2, 3))
            assert await waiting == 16
            assert (await looking)[0] == 16
            assert await committed(cluster, 2) == (0, [5])

    run(story)
