"""IncrementalAlterConfigsResponse, API 44.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class AlterConfigsResourceResponse(Struct):
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", nullable="0+", default=None)
    resource_type: int = field("int8", default=0)
    resource_name: str = field("string", default="")


class IncrementalAlterConfigsResponse(Message, key=44, valid="0-1", flexible="1+"):
    throttle_time_ms: int = field("int32", default=0)
    responses: Sequence[AlterConfigsResourceResponse] = field(
        [AlterConfigsResourceResponse], default=()
    )
