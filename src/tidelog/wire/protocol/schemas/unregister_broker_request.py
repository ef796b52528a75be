"""UnregisterBrokerRequest, API 64.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from tidelog.wire.protocol.message import Message, field


class UnregisterBrokerRequest(Message, key=64, valid="0", flexible="0+"):
    broker_id: int = field("int32", default=0)
