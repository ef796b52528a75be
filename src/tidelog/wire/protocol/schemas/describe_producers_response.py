"""DescribeProducersResponse, API 61.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class ProducerState(Struct):
    producer_id: int = field("int64", default=0)
    producer_epoch: int = field("int32", default=0)
    last_sequence: int = field("int32", default=-1)
    last_timestamp: int = field("int64", default=-1)
    coordinator_epoch: int = field("int32", default=0)
    current_txn_start_offset: int = field("int64", default=-1)


class PartitionResponse(Struct):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", nullable="0+", default=None)
    active_producers: Sequence[ProducerState] = field([ProducerState], default=())


class TopicResponse(Struct):
    name: str = field("string", default="")
    partitions: Sequence[PartitionResponse] = field([PartitionResponse], default=())


class DescribeProducersResponse(Message, key=61, valid="0", flexible="0+"):
    throttle_time_ms: int = field("int32", default=0)
    topics: Sequence[TopicResponse] = field([TopicResponse], default=())
