"""TxnOffsetCommitResponse, API 28.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)


class TxnOffsetCommitResponseTopic(Struct):
    name: str = field("string", default="")
    partitions: Sequence[TxnOffsetCommitResponsePartition] = field(
        [TxnOffsetCommitResponsePartition], default=()
    )


class TxnOffsetCommitResponse(Message, key=28, valid="0-5", flexible="3+"):
    throttle_time_ms: int = field("int32", default=0)
    topics: Sequence[TxnOffsetCommitResponseTopic] = field(
        [TxnOffsetCommitResponseTopic], default=()
    )
