"""ListPartitionReassignmentsResponse, API 46.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class OngoingPartitionReassignment(Struct):
    partition_index: int = field("int32", default=0)
    replicas: Sequence[int] = field(["int32"], default=())
    adding_replicas: Sequence[int] = field(["int32"], default=())
    removing_replicas: Sequence[int] = field(["int32"], default=())


class OngoingTopicReassignment(Struct):
    name: str = field("string", default="")
    partitions: Sequence[OngoingPartitionReassignment] = field(
        [OngoingPartitionReassignment], default=()
    )


class ListPartitionReassignmentsResponse(Message, key=46, valid="0", flexible="0+"):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", nullable="0+", default=None)
    topics: Sequence[OngoingTopicReassignment] = field([OngoingTopicReassignment], default=())
