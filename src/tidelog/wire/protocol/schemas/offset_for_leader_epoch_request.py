"""OffsetForLeaderEpochRequest, API 23.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class OffsetForLeaderPartition(Struct):
    partition: int = field("int32", default=0)
    current_leader_epoch: int = field("int32", default=-1)
    leader_epoch: int = field("int32", default=0)


class OffsetForLeaderTopic(Struct):
    topic: str = field("string", default="")
    partitions: Sequence[OffsetForLeaderPartition] = field([OffsetForLeaderPartition], default=())


class OffsetForLeaderEpochRequest(Message, key=23, valid="2-4", flexible="4+"):
    replica_id: int = field("int32", "3+", default=-2)
    topics: Sequence[OffsetForLeaderTopic] = field([OffsetForLeaderTopic], default=())
