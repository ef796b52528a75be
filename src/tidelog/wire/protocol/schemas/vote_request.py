"""VoteRequest, API 52.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class PartitionData(Struct):
    partition_index: int = field("int32", default=0)
    replica_epoch: int = field("int32", default=0)
    replica_id: int = field("int32", default=0)
    replica_directory_id: bytes = field("uuid", "1+", default=ZERO_UUID)
    voter_directory_id: bytes = field("uuid", "1+", default=ZERO_UUID)
    last_offset_epoch: int = field("int32", default=0)
    last_offset: int = field("int64", default=0)
    pre_vote: bool = field("bool", "2+", default=False)


class TopicData(Struct):
    topic_name: str = field("string", default="")
    partitions: Sequence[PartitionData] = field([PartitionData], default=())


class VoteRequest(Message, key=52, valid="0-2", flexible="0+"):
    cluster_id: str | None = field("string", nullable="0+", default=None)
    voter_id: int = field("int32", "1+", default=-1)
    topics: Sequence[TopicData] = field([TopicData], default=())
