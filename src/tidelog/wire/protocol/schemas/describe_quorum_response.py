"""DescribeQuorumResponse, API 55.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class ReplicaState(Struct):
    replica_id: int = field("int32", default=0)
    replica_directory_id: bytes = field("uuid", "2+", default=ZERO_UUID)
    log_end_offset: int = field("int64", default=0)
    last_fetch_timestamp: int = field("int64", "1+", default=-1)
    last_caught_up_timestamp: int = field("int64", "1+", default=-1)


class PartitionData(Struct):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", "2+", nullable="0+", default=None)
    leader_id: int = field("int32", default=0)
    leader_epoch: int = field("int32", default=0)
    high_watermark: int = field("int64", default=0)
    current_voters: Sequence[ReplicaState] = field([ReplicaState], default=())
    observers: Sequence[ReplicaState] = field([ReplicaState], default=())


class TopicData(Struct):
    topic_name: str = field("string", default="")
    partitions: Sequence[PartitionData] = field([PartitionData], default=())


class Listener(Struct):
    name: str = field("string", default="")
    host: str = field("string", default="")
    port: int = field("uint16", default=0)


class Node(Struct):
    node_id: int = field("int32", default=0)
    listeners: Sequence[Listener] = field([Listener], default=())


class DescribeQuorumResponse(Message, key=55, valid="0-2", flexible="0+"):
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", "2+", nullable="0+", default=None)
    topics: Sequence[TopicData] = field([TopicData], default=())
    nodes: Sequence[Node] = field([Node], "2+", default=())
