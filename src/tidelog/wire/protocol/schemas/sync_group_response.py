"""SyncGroupResponse, API 14.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from tidelog.wire.protocol.message import Message, field


class SyncGroupResponse(Message, key=14, valid="0-5", flexible="4+"):
    throttle_time_ms: int = field("int32", "1+", default=0)
    error_code: int = field("int16", default=0)
    protocol_type: str | None = field("string", "5+", nullable="0+", default=None)
    protocol_name: str | None = field("string", "5+", nullable="0+", default=None)
    assignment: bytes = field("bytes", default=b"")
