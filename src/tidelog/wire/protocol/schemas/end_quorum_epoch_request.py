"""EndQuorumEpochRequest, API 54.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class ReplicaInfo(Struct):
    candidate_id: int = field("int32", default=0)
    candidate_directory_id: bytes = field("uuid", default=ZERO_UUID)


class PartitionData(Struct):
    partition_index: int = field("int32", default=0)
    leader_id: int = field("int32", default=0)
    leader_epoch: int = field("int32", default=0)
    preferred_candidates: Sequence[ReplicaInfo] = field([ReplicaInfo], "1+", default=())
    preferred_successors: Sequence[int] = field(["int32"], "0-0", default=())


class TopicData(Struct):
    topic_name: str = field("string", default="")
    partitions: Sequence[PartitionData] = field([PartitionData], default=())


class LeaderEndpoint(Struct):
    name: str = field("string", default="")
    host: str = field("string", default="")
    port: int = field("uint16", default=0)


class EndQuorumEpochRequest(Message, key=54, valid="0-1", flexible="1+"):
    cluster_id: str | None = field("string", nullable="0+", default=None)
    topics: Sequence[TopicData] = field([TopicData], default=())
    leader_endpoints: Sequence[LeaderEndpoint] = field([LeaderEndpoint], "1+", default=())
