"""ListTransactionsRequest, API 66.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, field


class ListTransactionsRequest(Message, key=66, valid="0-2", flexible="0+"):
    state_filters: Sequence[str] = field(["string"], default=())
    producer_id_filters: Sequence[int] = field(["int64"], default=())
    duration_filter: int = field("int64", "1+", default=-1)
    transactional_id_pattern: str | None = field("string", "2+", nullable="0+", default=None)
