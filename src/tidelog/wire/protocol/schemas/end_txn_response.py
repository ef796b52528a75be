"""EndTxnResponse, API 26.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from tidelog.wire.protocol.message import Message, field


class EndTxnResponse(Message, key=26, valid="0-5", flexible="3+"):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    producer_id: int = field("int64", "5+", default=-1)
    producer_epoch: int = field("int16", "5+", default=-1)
