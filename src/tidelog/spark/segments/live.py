"""What running brokers say of the partitions whose files are read."""

from collections.abc import Mapping, Sequence

from tidelog.client import Client, KafkaError, PartitionView
from tidelog.client.errors import check
from tidelog.client.offsets import LATEST, READ_COMMITTED, READ_UNCOMMITTED, find_offsets
from tidelog.core.errors import Error
from tidelog.replica_files import Replica, log_end, segments_of
from tidelog.spark.ranges import TopicPartition
from tidelog.spark.segments.choosing import LiveBounds
from tidelog.wire.protocol.schemas.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tidelog.wire.protocol.schemas.offset_for_leader_epoch_response import (
    OffsetForLeaderEpochResponse,
)


async def live_bounds(
    client: Client, replicas: Mapping[TopicPartition, Sequence[Replica]]
) -> dict[TopicPartition, LiveBounds]:
    """In this order: what decides about transactions below the last stable offset is below a
    high watermark that is asked for later, and that in turn in files that are read still later."""
    stable = await _ends(client, replicas, READ_COMMITTED)
    committed = await _ends(client, replicas, READ_UNCOMMITTED)
    topics = await client.topics(sorted({topic for topic, _ in replicas}))
    bounds = {}
    for where, mine in replicas.items():
        topic = topics[where[0]]
        view = next((each for each in topic.partitions if each.partition == where[1]), None)
        if view is None:
            raise KafkaError(Error.UNKNOWN_TOPIC_OR_PARTITION, f"{where[0]}-{where[1]}")
        bounds[where] = LiveBounds(
            committed[where],
            stable[where],
            topic.topic_id,
            view.leader,
            view.isr,
            {
                each.node_id: await shared_with_leader(client, view, each)
                for each in mine
                if each.node_id not in view.isr and each.topic_id == topic.topic_id
            },
        )
    return bounds


async def _ends(
    client: Client, partitions: Mapping[TopicPartition, object], isolation: int
) -> dict[TopicPartition, int]:
    found = await find_offsets(client, dict.fromkeys(partitions, LATEST), isolation=isolation)
    return {where: each.offset for where, each in found.items()}


async def shared_with_leader(client: Client, view: PartitionView, replica: Replica) -> int:
    """Up to where the leader has the records of a replica that is not in sync: where an epoch
    ends earlier at the leader, they have parted."""
    end = log_end(segments_of(replica.directory))
    if view.leader is None:
        return 0
    for epoch, start in reversed(replica.epochs):
        part = OffsetForLeaderPartition(
            partition=view.partition, current_leader_epoch=view.leader_epoch, leader_epoch=epoch
        )
        request = OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[OffsetForLeaderTopic(topic=view.topic, partitions=[part])]
        )
        answer = await client.ask_broker(view.leader, request, OffsetForLeaderEpochResponse)
        found = answer.topics[0].partitions[0]
        check(found.error_code, f"{view.topic}-{view.partition}")
        if found.leader_epoch == epoch:
            return min(end, found.end_offset)
        end = min(end, start)
    return end
