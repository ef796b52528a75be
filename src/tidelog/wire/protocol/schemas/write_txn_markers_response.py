"""WriteTxnMarkersResponse, API 27.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)


class WritableTxnMarkerTopicResult(Struct):
    name: str = field("string", default="")
    partitions: Sequence[WritableTxnMarkerPartitionResult] = field(
        [WritableTxnMarkerPartitionResult], default=()
    )


class WritableTxnMarkerResult(Struct):
    producer_id: int = field("int64", default=0)
    topics: Sequence[WritableTxnMarkerTopicResult] = field(
        [WritableTxnMarkerTopicResult], default=()
    )


class WriteTxnMarkersResponse(Message, key=27, valid="1-2", flexible="1+"):
    markers: Sequence[WritableTxnMarkerResult] = field([WritableTxnMarkerResult], default=())
