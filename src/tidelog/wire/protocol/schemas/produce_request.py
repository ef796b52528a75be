"""ProduceRequest, API 0.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Buffer, Message, Struct, field


class PartitionProduceData(Struct):
    index: int = field("int32", default=0)
    records: Buffer | None = field("records", nullable="0+", default=None)


class TopicProduceData(Struct):
    topic_id: bytes = field("uuid", "13+", default=ZERO_UUID)
    name: str = field("string", "3-12", default="")
    partition_data: Sequence[PartitionProduceData] = field([PartitionProduceData], default=())


class ProduceRequest(Message, key=0, valid="3-13", flexible="9+"):
    transactional_id: str | None = field("string", nullable="0+", default=None)
    acks: int = field("int16", default=0)
    timeout_ms: int = field("int32", default=0)
    topic_data: Sequence[TopicProduceData] = field([TopicProduceData], default=())
