"""DescribeTopicPartitionsRequest, API 75.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class TopicRequest(Struct):
    name: str = field("string", default="")


class Cursor(Struct):
    topic_name: str = field("string", default="")
    partition_index: int = field("int32", default=0)


class DescribeTopicPartitionsRequest(Message, key=75, valid="0", flexible="0+"):
    topics: Sequence[TopicRequest] = field([TopicRequest], default=())
    response_partition_limit: int = field("int32", default=2000)
    cursor: Cursor | None = field(Cursor, nullable="0+", default=None)
