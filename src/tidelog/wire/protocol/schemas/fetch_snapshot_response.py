"""FetchSnapshotResponse, API 59.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Buffer, Message, Struct, field


class SnapshotId(Struct):
    end_offset: int = field("int64", default=0)
    epoch: int = field("int32", default=0)


class LeaderIdAndEpoch(Struct):
    leader_id: int = field("int32", default=0)
    leader_epoch: int = field("int32", default=0)


class PartitionSnapshot(Struct):
    index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    snapshot_id: SnapshotId = field(SnapshotId)
    current_leader: LeaderIdAndEpoch | None = field(LeaderIdAndEpoch, tag=0, default=None)
    size: int = field("int64", default=0)
    position: int = field("int64", default=0)
    unaligned_records: Buffer | None = field("records", default=None)


class TopicSnapshot(Struct):
    name: str = field("string", default="")
    partitions: Sequence[PartitionSnapshot] = field([PartitionSnapshot], default=())


class NodeEndpoint(Struct):
    node_id: int = field("int32", default=0)
    host: str = field("string", default="")
    port: int = field("uint16", default=0)


class FetchSnapshotResponse(Message, key=59, valid="0-1", flexible="0+"):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    topics: Sequence[TopicSnapshot] = field([TopicSnapshot], default=())
    node_endpoints: Sequence[NodeEndpoint] = field([NodeEndpoint], "1+", tag=0, default=())
