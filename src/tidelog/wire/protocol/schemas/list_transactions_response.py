"""ListTransactionsResponse, API 66.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class TransactionState(Struct):
    transactional_id: str = field("string", default="")
    producer_id: int = field("int64", default=0)
    transaction_state: str = field("string", default="")


class ListTransactionsResponse(Message, key=66, valid="0-2", flexible="0+"):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    unknown_state_filters: Sequence[str] = field(["string"], default=())
    transaction_states: Sequence[TransactionState] = field([TransactionState], default=())
