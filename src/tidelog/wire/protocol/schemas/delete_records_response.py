"""DeleteRecordsResponse, API 21.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class DeleteRecordsPartitionResult(Struct):
    partition_index: int = field("int32", default=0)
    low_watermark: int = field("int64", default=0)
    error_code: int = field("int16", default=0)


class DeleteRecordsTopicResult(Struct):
    name: str = field("string", default="")
    partitions: Sequence[DeleteRecordsPartitionResult] = field(
        [DeleteRecordsPartitionResult], default=()
    )


class DeleteRecordsResponse(Message, key=21, valid="0-2", flexible="2+"):
    throttle_time_ms: int = field("int32", default=0)
    topics: Sequence[DeleteRecordsTopicResult] = field([DeleteRecordsTopicResult], default=())
