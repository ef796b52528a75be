"""DescribeTopicPartitionsResponse, API 75.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int = field("int16", default=0)
    partition_index: int = field("int32", default=0)
    leader_id: int = field("int32", default=0)
    leader_epoch: int = field("int32", default=-1)
    replica_nodes: Sequence[int] = field(["int32"], default=())
    isr_nodes: Sequence[int] = field(["int32"], default=())
    eligible_leader_replicas: Sequence[int] | None = field(["int32"], nullable="0+", default=None)
    last_known_elr: Sequence[int] | None = field(["int32"], nullable="0+", default=None)
    offline_replicas: Sequence[int] = field(["int32"], default=())


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int = field("int16", default=0)
    name: str | None = field("string", nullable="0+", default=None)
    topic_id: bytes = field("uuid", default=ZERO_UUID)
    is_internal: bool = field("bool", default=False)
    partitions: Sequence[DescribeTopicPartitionsResponsePartition] = field(
        [DescribeTopicPartitionsResponsePartition], default=()
    )
    topic_authorized_operations: int = field("int32", default=-2147483648)


class Cursor(Struct):
    topic_name: str = field("string", default="")
    partition_index: int = field("int32", default=0)


class DescribeTopicPartitionsResponse(Message, key=75, valid="0", flexible="0+"):
    throttle_time_ms: int = field("int32", default=0)
    topics: Sequence[DescribeTopicPartitionsResponseTopic] = field(
        [DescribeTopicPartitionsResponseTopic], default=()
    )
    next_cursor: Cursor | None = field(Cursor, nullable="0+", default=None)
