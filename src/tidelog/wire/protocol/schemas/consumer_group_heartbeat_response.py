"""ConsumerGroupHeartbeatResponse, API 68.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class TopicPartitions(Struct):
    topic_id: bytes = field("uuid", default=ZERO_UUID)
    partitions: Sequence[int] = field(["int32"], default=())


class Assignment(Struct):
    topic_partitions: Sequence[TopicPartitions] = field([TopicPartitions], default=())


class ConsumerGroupHeartbeatResponse(Message, key=68, valid="0-1", flexible="0+"):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", nullable="0+", default=None)
    member_id: str | None = field("string", nullable="0+", default=None)
    member_epoch: int = field("int32", default=0)
    heartbeat_interval_ms: int = field("int32", default=0)
    assignment: Assignment | None = field(Assignment, nullable="0+", default=None)
