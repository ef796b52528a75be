"""BeginQuorumEpochRequest, API 53.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class PartitionData(Struct):
    partition_index: int = field("int32", default=0)
    voter_directory_id: bytes = field("uuid", "1+", default=ZERO_UUID)
    leader_id: int = field("int32", default=0)
    leader_epoch: int = field("int32", default=0)


class TopicData(Struct):
    topic_name: str = field("string", default="")
    partitions: Sequence[PartitionData] = field([PartitionData], default=())


class LeaderEndpoint(Struct):
    name: str = field("string", default="")
    host: str = field("string", default="")
    port: int = field("uint16", default=0)


class BeginQuorumEpochRequest(Message, key=53, valid="0-1", flexible="1+"):
    cluster_id: str | None = field("string", nullable="0+", default=None)
    voter_id: int = field("int32", "1+", default=-1)
    topics: Sequence[TopicData] = field([TopicData], default=())
    leader_endpoints: Sequence[LeaderEndpoint] = field([LeaderEndpoint], "1+", default=())
