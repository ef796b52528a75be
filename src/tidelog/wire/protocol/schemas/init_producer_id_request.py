"""InitProducerIdRequest, API 22.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from tidelog.wire.protocol.message import Message, field


class InitProducerIdRequest(Message, key=22, valid="0-6", flexible="2+"):
    transactional_id: str | None = field("string", nullable="0+", default=None)
    transaction_timeout_ms: int = field("int32", default=0)
    producer_id: int = field("int64", "3+", default=-1)
    producer_epoch: int = field("int16", "3+", default=-1)
    enable_2pc: bool = field("bool", "6+", default=False)
    keep_prepared_txn: bool = field("bool", "6+", default=False)
