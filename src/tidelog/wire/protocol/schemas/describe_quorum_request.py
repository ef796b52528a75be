"""DescribeQuorumRequest, API 55.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class PartitionData(Struct):
    partition_index: int = field("int32", default=0)


class TopicData(Struct):
    topic_name: str = field("string", default="")
    partitions: Sequence[PartitionData] = field([PartitionData], default=())


class DescribeQuorumRequest(Message, key=55, valid="0-2", flexible="0+"):
    topics: Sequence[TopicData] = field([TopicData], default=())
