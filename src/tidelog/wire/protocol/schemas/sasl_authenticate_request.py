"""SaslAuthenticateRequest, API 36.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from tidelog.wire.protocol.message import Message, field


class SaslAuthenticateRequest(Message, key=36, valid="0-2", flexible="2+"):
    auth_bytes: bytes = field("bytes", default=b"")
