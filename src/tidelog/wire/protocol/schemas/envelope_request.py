"""EnvelopeRequest, API 58.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from tidelog.wire.protocol.message import Message, field


class EnvelopeRequest(Message, key=58, valid="0", flexible="0+"):
    request_data: bytes = field("bytes", default=b"")
    request_principal: bytes | None = field("bytes", nullable="0+", default=None)
    client_host_address: bytes = field("bytes", default=b"")
