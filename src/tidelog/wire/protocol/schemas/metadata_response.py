"""MetadataResponse, API 3.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class MetadataResponseBroker(Struct):
    node_id: int = field("int32", default=0)
    host: str = field("string", default="")
    port: int = field("int32", default=0)
    rack: str | None = field("string", "1+", nullable="0+", default=None)


class MetadataResponsePartition(Struct):
    error_code: int = field("int16", default=0)
    partition_index: int = field("int32", default=0)
    leader_id: int = field("int32", default=0)
    leader_epoch: int = field("int32", "7+", default=-1)
    replica_nodes: Sequence[int] = field(["int32"], default=())
    isr_nodes: Sequence[int] = field(["int32"], default=())
    offline_replicas: Sequence[int] = field(["int32"], "5+", default=())


class MetadataResponseTopic(Struct):
    error_code: int = field("int16", default=0)
    name: str | None = field("string", nullable="12+", default="")
    topic_id: bytes = field("uuid", "10+", default=ZERO_UUID)
    is_internal: bool = field("bool", "1+", default=False)
    partitions: Sequence[MetadataResponsePartition] = field([MetadataResponsePartition], default=())
    topic_authorized_operations: int = field("int32", "8+", default=-2147483648)


class MetadataResponse(Message, key=3, valid="0-13", flexible="9+"):
    throttle_time_ms: int = field("int32", "3+", default=0)
    brokers: Sequence[MetadataResponseBroker] = field([MetadataResponseBroker], default=())
    cluster_id: str | None = field("string", "2+", nullable="0+", default=None)
    controller_id: int = field("int32", "1+", default=-1)
    topics: Sequence[MetadataResponseTopic] = field([MetadataResponseTopic], default=())
    error_code: int = field("int16", "13+", default=0)
    cluster_authorized_operations: int = field("int32", "8-10", default=-2147483648)
