"""OffsetFetchResponse, API 9.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class OffsetFetchResponsePartitions(Struct):
    partition_index: int = field("int32", default=0)
    committed_offset: int = field("int64", default=0)
    committed_leader_epoch: int = field("int32", default=-1)
    metadata: str | None = field("string", nullable="0+", default=None)
    error_code: int = field("int16", default=0)


class OffsetFetchResponseTopics(Struct):
    topic_id: bytes = field("uuid", "10+", default=ZERO_UUID)
    name: str = field("string", "8-9", default="")
    partitions: Sequence[OffsetFetchResponsePartitions] = field(
        [OffsetFetchResponsePartitions], default=()
    )


class OffsetFetchResponseGroup(Struct):
    group_id: str = field("string", default="")
    topics: Sequence[OffsetFetchResponseTopics] = field([OffsetFetchResponseTopics], default=())
    error_code: int = field("int16", default=0)


class OffsetFetchResponsePartition(Struct):
    partition_index: int = field("int32", default=0)
    committed_offset: int = field("int64", default=0)
    committed_leader_epoch: int = field("int32", "5-7", default=-1)
    metadata: str | None = field("string", nullable="0+", default=None)
    error_code: int = field("int16", default=0)


class OffsetFetchResponseTopic(Struct):
    name: str = field("string", default="")
    partitions: Sequence[OffsetFetchResponsePartition] = field(
        [OffsetFetchResponsePartition], default=()
    )


class OffsetFetchResponse(Message, key=9, valid="1-10", flexible="6+"):
    throttle_time_ms: int = field("int32", "3+", default=0)
    groups: Sequence[OffsetFetchResponseGroup] = field([OffsetFetchResponseGroup], "8+", default=())
    topics: Sequence[OffsetFetchResponseTopic] = field(
        [OffsetFetchResponseTopic], "1-7", default=()
    )
    error_code: int = field("int16", "2-7", default=0)
