"""OffsetForLeaderEpochResponse, API 23.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class EpochEndOffset(Struct):
    error_code: int = field("int16", default=0)
    partition: int = field("int32", default=0)
    leader_epoch: int = field("int32", default=-1)
    end_offset: int = field("int64", default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: str = field("string", default="")
    partitions: Sequence[EpochEndOffset] = field([EpochEndOffset], default=())


class OffsetForLeaderEpochResponse(Message, key=23, valid="2-4", flexible="4+"):
    throttle_time_ms: int = field("int32", default=0)
    topics: Sequence[OffsetForLeaderTopicResult] = field([OffsetForLeaderTopicResult], default=())
