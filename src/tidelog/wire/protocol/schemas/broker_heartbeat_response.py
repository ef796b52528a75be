"""BrokerHeartbeatResponse, API 63.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from tidelog.wire.protocol.message import Message, field


class BrokerHeartbeatResponse(Message, key=63, valid="0-2", flexible="0+"):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    is_caught_up: bool = field("bool", default=False)
    is_fenced: bool = field("bool", default=True)
    should_shut_down: bool = field("bool", default=False)
