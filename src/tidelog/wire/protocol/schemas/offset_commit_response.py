"""OffsetCommitResponse, API 8.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class OffsetCommitResponsePartition(Struct):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)


class OffsetCommitResponseTopic(Struct):
    topic_id: bytes = field("uuid", "10+", default=ZERO_UUID)
    name: str = field("string", "2-9", default="")
    partitions: Sequence[OffsetCommitResponsePartition] = field(
        [OffsetCommitResponsePartition], default=()
    )


class OffsetCommitResponse(Message, key=8, valid="2-10", flexible="8+"):
    throttle_time_ms: int = field("int32", "3+", default=0)
    topics: Sequence[OffsetCommitResponseTopic] = field([OffsetCommitResponseTopic], default=())
