"""AlterPartitionReassignmentsRequest, API 45.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class ReassignablePartition(Struct):
    partition_index: int = field("int32", default=0)
    replicas: Sequence[int] | None = field(["int32"], nullable="0+", default=None)


class ReassignableTopic(Struct):
    name: str = field("string", default="")
    partitions: Sequence[ReassignablePartition] = field([ReassignablePartition], default=())


class AlterPartitionReassignmentsRequest(Message, key=45, valid="0-1", flexible="0+"):
    timeout_ms: int = field("int32", default=60000)
    allow_replication_factor_change: bool = field("bool", "1+", default=True)
    topics: Sequence[ReassignableTopic] = field([ReassignableTopic], default=())
