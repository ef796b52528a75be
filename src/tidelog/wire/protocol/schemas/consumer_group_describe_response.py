"""ConsumerGroupDescribeResponse, API 69.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class TopicPartitions(Struct):
    topic_id: bytes = field("uuid", default=ZERO_UUID)
    topic_name: str = field("string", default="")
    partitions: Sequence[int] = field(["int32"], default=())


class Assignment(Struct):
    topic_partitions: Sequence[TopicPartitions] = field([TopicPartitions], default=())


class Member(Struct):
    member_id: str = field("string", default="")
    instance_id: str | None = field("string", nullable="0+", default=None)
    rack_id: str | None = field("string", nullable="0+", default=None)
    member_epoch: int = field("int32", default=0)
    client_id: str = field("string", default="")
    client_host: str = field("string", default="")
    subscribed_topic_names: Sequence[str] = field(["string"], default=())
    subscribed_topic_regex: str | None = field("string", nullable="0+", default=None)
    assignment: Assignment = field(Assignment)
    target_assignment: Assignment = field(Assignment)
    member_type: int = field("int8", "1+", default=-1)


class DescribedGroup(Struct):
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", nullable="0+", default=None)
    group_id: str = field("string", default="")
    group_state: str = field("string", default="")
    group_epoch: int = field("int32", default=0)
    assignment_epoch: int = field("int32", default=0)
    assignor_name: str = field("string", default="")
    members: Sequence[Member] = field([Member], default=())
    authorized_operations: int = field("int32", default=-2147483648)


class ConsumerGroupDescribeResponse(Message, key=69, valid="0-1", flexible="0+"):
    throttle_time_ms: int = field("int32", default=0)
    groups: Sequence[DescribedGroup] = field([DescribedGroup], default=())
