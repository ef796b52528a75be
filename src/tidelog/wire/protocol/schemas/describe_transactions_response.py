"""DescribeTransactionsResponse, API 65.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class TopicData(Struct):
    topic: str = field("string", default="")
    partitions: Sequence[int] = field(["int32"], default=())


class TransactionState(Struct):
    error_code: int = field("int16", default=0)
    transactional_id: str = field("string", default="")
    transaction_state: str = field("string", default="")
    transaction_timeout_ms: int = field("int32", default=0)
    transaction_start_time_ms: int = field("int64", default=0)
    producer_id: int = field("int64", default=0)
    producer_epoch: int = field("int16", default=0)
    topics: Sequence[TopicData] = field([TopicData], default=())


class DescribeTransactionsResponse(Message, key=65, valid="0", flexible="0+"):
    throttle_time_ms: int = field("int32", default=0)
    transaction_states: Sequence[TransactionState] = field([TransactionState], default=())
