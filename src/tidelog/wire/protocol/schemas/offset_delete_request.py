"""OffsetDeleteRequest, API 47.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class OffsetDeleteRequestPartition(Struct):
    partition_index: int = field("int32", default=0)


class OffsetDeleteRequestTopic(Struct):
    name: str = field("string", default="")
    partitions: Sequence[OffsetDeleteRequestPartition] = field(
        [OffsetDeleteRequestPartition], default=()
    )


class OffsetDeleteRequest(Message, key=47, valid="0", flexible=""):
    group_id: str = field("string", default="")
    topics: Sequence[OffsetDeleteRequestTopic] = field([OffsetDeleteRequestTopic], default=())
