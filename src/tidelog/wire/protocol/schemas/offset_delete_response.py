"""OffsetDeleteResponse, API 47.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class OffsetDeleteResponsePartition(Struct):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)


class OffsetDeleteResponseTopic(Struct):
    name: str = field("string", default="")
    partitions: Sequence[OffsetDeleteResponsePartition] = field(
        [OffsetDeleteResponsePartition], default=()
    )


class OffsetDeleteResponse(Message, key=47, valid="0", flexible=""):
    error_code: int = field("int16", default=0)
    throttle_time_ms: int = field("int32", default=0)
    topics: Sequence[OffsetDeleteResponseTopic] = field([OffsetDeleteResponseTopic], default=())
