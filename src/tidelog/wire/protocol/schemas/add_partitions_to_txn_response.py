"""AddPartitionsToTxnResponse, API 24.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = field("int32", default=0)
    partition_error_code: int = field("int16", default=0)


class AddPartitionsToTxnTopicResult(Struct):
    name: str = field("string", default="")
    results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = field(
        [AddPartitionsToTxnPartitionResult], default=()
    )


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = field("string", default="")
    topic_results: Sequence[AddPartitionsToTxnTopicResult] = field(
        [AddPartitionsToTxnTopicResult], default=()
    )


class AddPartitionsToTxnResponse(Message, key=24, valid="0-5", flexible="3+"):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", "4+", default=0)
    results_by_transaction: Sequence[AddPartitionsToTxnResult] = field(
        [AddPartitionsToTxnResult], "4+", default=()
    )
    results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnTopicResult] = field(
        [AddPartitionsToTxnTopicResult], "0-3", default=()
    )
