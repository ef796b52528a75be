"""BeginQuorumEpochResponse, API 53.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class PartitionData(Struct):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    leader_id: int = field("int32", default=0)
    leader_epoch: int = field("int32", default=0)


class TopicData(Struct):
    topic_name: str = field("string", default="")
    partitions: Sequence[PartitionData] = field([PartitionData], default=())


class NodeEndpoint(Struct):
    node_id: int = field("int32", default=0)
    host: str = field("string", default="")
    port: int = field("uint16", default=0)


class BeginQuorumEpochResponse(Message, key=53, valid="0-1", flexible="1+"):
    error_code: int = field("int16", default=0)
    topics: Sequence[TopicData] = field([TopicData], default=())
    node_endpoints: Sequence[NodeEndpoint] = field([NodeEndpoint], "1+", tag=0, default=())
