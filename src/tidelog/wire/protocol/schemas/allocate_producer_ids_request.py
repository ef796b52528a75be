"""AllocateProducerIdsRequest, API 67.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from tidelog.wire.protocol.message import Message, field


class AllocateProducerIdsRequest(Message, key=67, valid="0", flexible="0+"):
    broker_id: int = field("int32", default=0)
    broker_epoch: int = field("int64", default=-1)
