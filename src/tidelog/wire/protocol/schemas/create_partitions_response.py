"""CreatePartitionsResponse, API 37.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class CreatePartitionsTopicResult(Struct):
    name: str = field("string", default="")
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", nullable="0+", default=None)


class CreatePartitionsResponse(Message, key=37, valid="0-3", flexible="2+"):
    throttle_time_ms: int = field("int32", default=0)
    results: Sequence[CreatePartitionsTopicResult] = field(
        [CreatePartitionsTopicResult], default=()
    )
