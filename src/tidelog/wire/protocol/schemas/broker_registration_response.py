"""BrokerRegistrationResponse, API 62.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from tidelog.wire.protocol.message import Message, field


class BrokerRegistrationResponse(Message, key=62, valid="0-4", flexible="0+"):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    broker_epoch: int = field("int64", default=-1)
