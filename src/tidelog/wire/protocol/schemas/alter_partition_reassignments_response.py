"""AlterPartitionReassignmentsResponse, API 45.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class ReassignablePartitionResponse(Struct):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", nullable="0+", default=None)


class ReassignableTopicResponse(Struct):
    name: str = field("string", default="")
    partitions: Sequence[ReassignablePartitionResponse] = field(
        [ReassignablePartitionResponse], default=()
    )


class AlterPartitionReassignmentsResponse(Message, key=45, valid="0-1", flexible="0+"):
    throttle_time_ms: int = field("int32", default=0)
    allow_replication_factor_change: bool = field("bool", "1+", default=True)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", nullable="0+", default=None)
    responses: Sequence[ReassignableTopicResponse] = field([ReassignableTopicResponse], default=())
