"""DeleteTopicsResponse, API 20.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class DeletableTopicResult(Struct):
    name: str | None = field("string", nullable="6+", default="")
    topic_id: bytes = field("uuid", "6+", default=ZERO_UUID)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", "5+", nullable="0+", default=None)


class DeleteTopicsResponse(Message, key=20, valid="1-6", flexible="4+"):
    throttle_time_ms: int = field("int32", default=0)
    responses: Sequence[DeletableTopicResult] = field([DeletableTopicResult], default=())
