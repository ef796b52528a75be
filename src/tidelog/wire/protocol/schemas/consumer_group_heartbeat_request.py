"""ConsumerGroupHeartbeatRequest, API 68.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class TopicPartitions(Struct):
    topic_id: bytes = field("uuid", default=ZERO_UUID)
    partitions: Sequence[int] = field(["int32"], default=())


class ConsumerGroupHeartbeatRequest(Message, key=68, valid="0-1", flexible="0+"):
    group_id: str = field("string", default="")
    member_id: str = field("string", default="")
    member_epoch: int = field("int32", default=0)
    instance_id: str | None = field("string", nullable="0+", default=None)
    rack_id: str | None = field("string", nullable="0+", default=None)
    rebalance_timeout_ms: int = field("int32", default=-1)
    subscribed_topic_names: Sequence[str] | None = field(["string"], nullable="0+", default=None)
    subscribed_topic_regex: str | None = field("string", "1+", nullable="0+", default=None)
    server_assignor: str | None = field("string", nullable="0+", default=None)
    topic_partitions: Sequence[TopicPartitions] | None = field(
        [TopicPartitions], nullable="0+", default=None
    )
