"""SaslHandshakeResponse, API 17.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, field


class SaslHandshakeResponse(Message, key=17, valid="0-1", flexible=""):
    error_code: int = field("int16", default=0)
    mechanisms: Sequence[str] = field(["string"], default=())
