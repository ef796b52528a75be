"""EndTxnRequest, API 26.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from tidelog.wire.protocol.message import Message, field


class EndTxnRequest(Message, key=26, valid="0-5", flexible="3+"):
    transactional_id: str = field("string", default="")
    producer_id: int = field("int64", default=0)
    producer_epoch: int = field("int16", default=0)
    committed: bool = field("bool", default=False)
