"""ListOffsetsRequest, API 2.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class ListOffsetsPartition(Struct):
    partition_index: int = field("int32", default=0)
    current_leader_epoch: int = field("int32", "4+", default=-1)
    timestamp: int = field("int64", default=0)


class ListOffsetsTopic(Struct):
    name: str = field("string", default="")
    partitions: Sequence[ListOffsetsPartition] = field([ListOffsetsPartition], default=())


class ListOffsetsRequest(Message, key=2, valid="1-11", flexible="6+"):
    replica_id: int = field("int32", default=0)
    isolation_level: int = field("int8", "2+", default=0)
    topics: Sequence[ListOffsetsTopic] = field([ListOffsetsTopic], default=())
    timeout_ms: int = field("int32", "10+", default=0)
