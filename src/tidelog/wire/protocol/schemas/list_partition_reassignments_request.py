"""ListPartitionReassignmentsRequest, API 46.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class ListPartitionReassignmentsTopics(Struct):
    name: str = field("string", default="")
    partition_indexes: Sequence[int] = field(["int32"], default=())


class ListPartitionReassignmentsRequest(Message, key=46, valid="0", flexible="0+"):
    timeout_ms: int = field("int32", default=60000)
    topics: Sequence[ListPartitionReassignmentsTopics] | None = field(
        [ListPartitionReassignmentsTopics], nullable="0+", default=None
    )
