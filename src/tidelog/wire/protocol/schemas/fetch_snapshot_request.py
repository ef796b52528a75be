"""FetchSnapshotRequest, API 59.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class SnapshotId(Struct):
    end_offset: int = field("int64", default=0)
    epoch: int = field("int32", default=0)


class PartitionSnapshot(Struct):
    partition: int = field("int32", default=0)
    current_leader_epoch: int = field("int32", default=0)
    snapshot_id: SnapshotId = field(SnapshotId)
    position: int = field("int64", default=0)
    replica_directory_id: bytes = field("uuid", "1+", tag=0, default=ZERO_UUID)


class TopicSnapshot(Struct):
    name: str = field("string", default="")
    partitions: Sequence[PartitionSnapshot] = field([PartitionSnapshot], default=())


class FetchSnapshotRequest(Message, key=59, valid="0-1", flexible="0+"):
    cluster_id: str | None = field("string", nullable="0+", tag=0, default=None)
    replica_id: int = field("int32", default=-1)
    max_bytes: int = field("int32", default=2147483647)
    topics: Sequence[TopicSnapshot] = field([TopicSnapshot], default=())
