"""SaslAuthenticateResponse, API 36.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from tidelog.wire.protocol.message import Message, field


class SaslAuthenticateResponse(Message, key=36, valid="0-2", flexible="2+"):
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", nullable="0+", default=None)
    auth_bytes: bytes = field("bytes", default=b"")
    session_lifetime_ms: int = field("int64", "1+", default=0)
