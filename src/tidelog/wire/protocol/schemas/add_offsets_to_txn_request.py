"""AddOffsetsToTxnRequest, API 25.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from tidelog.wire.protocol.message import Message, field


class AddOffsetsToTxnRequest(Message, key=25, valid="0-4", flexible="3+"):
    transactional_id: str = field("string", default="")
    producer_id: int = field("int64", default=0)
    producer_epoch: int = field("int16", default=0)
    group_id: str = field("string", default="")
