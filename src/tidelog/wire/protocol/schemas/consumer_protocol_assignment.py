"""ConsumerProtocolAssignment.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class TopicPartition(Struct):
    topic: str = field("string", default="")
    partitions: Sequence[int] = field(["int32"], default=())


class ConsumerProtocolAssignment(Message, key=-1, valid="0-3", flexible=""):
    assigned_partitions: Sequence[TopicPartition] = field([TopicPartition], default=())
    user_data: bytes | None = field("bytes", nullable="0+", default=None)
