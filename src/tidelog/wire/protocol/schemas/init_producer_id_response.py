"""InitProducerIdResponse, API 22.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from tidelog.wire.protocol.message import Message, field


class InitProducerIdResponse(Message, key=22, valid="0-6", flexible="2+"):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    producer_id: int = field("int64", default=-1)
    producer_epoch: int = field("int16", default=0)
    ongoing_txn_producer_id: int = field("int64", "6+", default=-1)
    ongoing_txn_producer_epoch: int = field("int16", "6+", default=-1)
