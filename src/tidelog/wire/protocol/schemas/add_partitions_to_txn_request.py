"""AddPartitionsToTxnRequest, API 24.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class AddPartitionsToTxnTopic(Struct):
    name: str = field("string", default="")
    partitions: Sequence[int] = field(["int32"], default=())


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = field("string", default="")
    producer_id: int = field("int64", default=0)
    producer_epoch: int = field("int16", default=0)
    verify_only: bool = field("bool", default=False)
    topics: Sequence[AddPartitionsToTxnTopic] = field([AddPartitionsToTxnTopic], default=())


class AddPartitionsToTxnRequest(Message, key=24, valid="0-5", flexible="3+"):
    transactions: Sequence[AddPartitionsToTxnTransaction] = field(
        [AddPartitionsToTxnTransaction], "4+", default=()
    )
    v3_and_below_transactional_id: str = field("string", "0-3", default="")
    v3_and_below_producer_id: int = field("int64", "0-3", default=0)
    v3_and_below_producer_epoch: int = field("int16", "0-3", default=0)
    v3_and_below_topics: Sequence[AddPartitionsToTxnTopic] = field(
        [AddPartitionsToTxnTopic], "0-3", default=()
    )
