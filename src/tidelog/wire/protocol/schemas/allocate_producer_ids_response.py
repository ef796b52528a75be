"""AllocateProducerIdsResponse, API 67.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from tidelog.wire.protocol.message import Message, field


class AllocateProducerIdsResponse(Message, key=67, valid="0", flexible="0+"):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    producer_id_start: int = field("int64", default=0)
    producer_id_len: int = field("int32", default=0)
