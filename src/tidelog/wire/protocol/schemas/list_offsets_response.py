"""ListOffsetsResponse, API 2.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    timestamp: int = field("int64", default=-1)
    offset: int = field("int64", default=-1)
    leader_epoch: int = field("int32", "4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = field("string", default="")
    partitions: Sequence[ListOffsetsPartitionResponse] = field(
        [ListOffsetsPartitionResponse], default=()
    )


class ListOffsetsResponse(Message, key=2, valid="1-11", flexible="6+"):
    throttle_time_ms: int = field("int32", "2+", default=0)
    topics: Sequence[ListOffsetsTopicResponse] = field([ListOffsetsTopicResponse], default=())
