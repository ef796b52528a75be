"""OffsetCommitRequest, API 8.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class OffsetCommitRequestPartition(Struct):
    partition_index: int = field("int32", default=0)
    committed_offset: int = field("int64", default=0)
    committed_leader_epoch: int = field("int32", "6+", default=-1)
    committed_metadata: str | None = field("string", nullable="0+", default=None)


class OffsetCommitRequestTopic(Struct):
    topic_id: bytes = field("uuid", "10+", default=ZERO_UUID)
    name: str = field("string", "2-9", default="")
    partitions: Sequence[OffsetCommitRequestPartition] = field(
        [OffsetCommitRequestPartition], default=()
    )


class OffsetCommitRequest(Message, key=8, valid="2-10", flexible="8+"):
    group_id: str = field("string", default="")
    generation_id_or_member_epoch: int = field("int32", default=-1)
    member_id: str = field("string", default="")
    group_instance_id: str | None = field("string", "7+", nullable="0+", default=None)
    retention_time_ms: int = field("int64", "2-4", default=-1)
    topics: Sequence[OffsetCommitRequestTopic] = field([OffsetCommitRequestTopic], default=())
