"""DescribeProducersRequest, API 61.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class TopicRequest(Struct):
    name: str = field("string", default="")
    partition_indexes: Sequence[int] = field(["int32"], default=())


class DescribeProducersRequest(Message, key=61, valid="0", flexible="0+"):
    topics: Sequence[TopicRequest] = field([TopicRequest], default=())
