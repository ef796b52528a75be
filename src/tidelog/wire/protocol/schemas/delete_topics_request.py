"""DeleteTopicsRequest, API 20.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class DeleteTopicState(Struct):
    name: str | None = field("string", nullable="0+", default=None)
    topic_id: bytes = field("uuid", default=ZERO_UUID)


class DeleteTopicsRequest(Message, key=20, valid="1-6", flexible="4+"):
    topics: Sequence[DeleteTopicState] = field([DeleteTopicState], "6+", default=())
    topic_names: Sequence[str] = field(["string"], "1-5", default=())
    timeout_ms: int = field("int32", default=0)
