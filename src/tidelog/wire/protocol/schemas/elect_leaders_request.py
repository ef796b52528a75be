"""ElectLeadersRequest, API 43.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class TopicPartitions(Struct):
    topic: str = field("string", default="")
    partitions: Sequence[int] = field(["int32"], default=())


class ElectLeadersRequest(Message, key=43, valid="0-2", flexible="2+"):
    election_type: int = field("int8", "1+", default=0)
    topic_partitions: Sequence[TopicPartitions] | None = field(
        [TopicPartitions], nullable="0+", default=()
    )
    timeout_ms: int = field("int32", default=60000)
