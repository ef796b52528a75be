"""EnvelopeResponse, API 58.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from tidelog.wire.protocol.message import Message, field


class EnvelopeResponse(Message, key=58, valid="0", flexible="0+"):
    response_data: bytes | None = field("bytes", nullable="0+", default=None)
    error_code: int = field("int16", default=0)
