"""ConsumerProtocolSubscription.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class TopicPartition(Struct):
    topic: str = field("string", default="")
    partitions: Sequence[int] = field(["int32"], default=())


class ConsumerProtocolSubscription(Message, key=-1, valid="0-3", flexible=""):
    topics: Sequence[str] = field(["string"], default=())
    user_data: bytes | None = field("bytes", nullable="0+", default=None)
    owned_partitions: Sequence[TopicPartition] = field([TopicPartition], "1+", default=())
    generation_id: int = field("int32", "2+", default=-1)
    rack_id: str | None = field("string", "3+", nullable="0+", default=None)
