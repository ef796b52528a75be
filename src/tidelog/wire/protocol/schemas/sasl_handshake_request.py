"""SaslHandshakeRequest, API 17.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from tidelog.wire.protocol.message import Message, field


class SaslHandshakeRequest(Message, key=17, valid="0-1", flexible=""):
    mechanism: str = field("string", default="")
