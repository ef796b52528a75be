"""ProduceResponse, API 0.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = field("int32", default=0)
    batch_index_error_message: str | None = field("string", nullable="0+", default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: int = field("int32", default=-1)
    leader_epoch: int = field("int32", default=-1)


class PartitionProduceResponse(Struct):
    index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    base_offset: int = field("int64", default=0)
    log_append_time_ms: int = field("int64", default=-1)
    log_start_offset: int = field("int64", "5+", default=-1)
    record_errors: Sequence[BatchIndexAndErrorMessage] = field(
        [BatchIndexAndErrorMessage], "8+", default=()
    )
    error_message: str | None = field("string", "8+", nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch | None = field(LeaderIdAndEpoch, "10+", tag=0, default=None)


class TopicProduceResponse(Struct):
    topic_id: bytes = field("uuid", "13+", default=ZERO_UUID)
    name: str = field("string", "3-12", default="")
    partition_responses: Sequence[PartitionProduceResponse] = field(
        [PartitionProduceResponse], default=()
    )


class NodeEndpoint(Struct):
    node_id: int = field("int32", default=0)
    host: str = field("string", default="")
    port: int = field("int32", default=0)
    rack: str | None = field("string", nullable="0+", default=None)


class ProduceResponse(Message, key=0, valid="3-13", flexible="9+"):
    responses: Sequence[TopicProduceResponse] = field([TopicProduceResponse], default=())
    throttle_time_ms: int = field("int32", default=0)
    node_endpoints: Sequence[NodeEndpoint] = field([NodeEndpoint], "10+", tag=0, default=())
