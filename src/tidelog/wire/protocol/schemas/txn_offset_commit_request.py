"""TxnOffsetCommitRequest, API 28.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = field("int32", default=0)
    committed_offset: int = field("int64", default=0)
    committed_leader_epoch: int = field("int32", "2+", default=-1)
    committed_metadata: str | None = field("string", nullable="0+", default=None)


class TxnOffsetCommitRequestTopic(Struct):
    name: str = field("string", default="")
    partitions: Sequence[TxnOffsetCommitRequestPartition] = field(
        [TxnOffsetCommitRequestPartition], default=()
    )


class TxnOffsetCommitRequest(Message, key=28, valid="0-5", flexible="3+"):
    transactional_id: str = field("string", default="")
    group_id: str = field("string", default="")
    producer_id: int = field("int64", default=0)
    producer_epoch: int = field("int16", default=0)
    generation_id: int = field("int32", "3+", default=-1)
    member_id: str = field("string", "3+", default="")
    group_instance_id: str | None = field("string", "3+", nullable="0+", default=None)
    topics: Sequence[TxnOffsetCommitRequestTopic] = field([TxnOffsetCommitRequestTopic], default=())
