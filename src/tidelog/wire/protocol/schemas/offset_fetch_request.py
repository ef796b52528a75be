"""OffsetFetchRequest, API 9.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class OffsetFetchRequestTopics(Struct):
    topic_id: bytes = field("uuid", "10+", default=ZERO_UUID)
    name: str = field("string", "8-9", default="")
    partition_indexes: Sequence[int] = field(["int32"], default=())


class OffsetFetchRequestGroup(Struct):
    group_id: str = field("string", default="")
    member_id: str | None = field("string", "9+", nullable="0+", default=None)
    member_epoch: int = field("int32", "9+", default=-1)
    topics: Sequence[OffsetFetchRequestTopics] | None = field(
        [OffsetFetchRequestTopics], nullable="0+", default=()
    )


class OffsetFetchRequestTopic(Struct):
    name: str = field("string", default="")
    partition_indexes: Sequence[int] = field(["int32"], default=())


class OffsetFetchRequest(Message, key=9, valid="1-10", flexible="6+"):
    groups: Sequence[OffsetFetchRequestGroup] = field([OffsetFetchRequestGroup], "8+", default=())
    group_id: str = field("string", "1-7", default="")
    topics: Sequence[OffsetFetchRequestTopic] | None = field(
        [OffsetFetchRequestTopic], "1-7", nullable="2-7", default=()
    )
    require_stable: bool = field("bool", "7+", default=False)
