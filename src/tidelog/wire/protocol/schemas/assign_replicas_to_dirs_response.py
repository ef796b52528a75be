"""AssignReplicasToDirsResponse, API 73.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class PartitionData(Struct):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)


class TopicData(Struct):
    topic_id: bytes = field("uuid", default=ZERO_UUID)
    partitions: Sequence[PartitionData] = field([PartitionData], default=())


class DirectoryData(Struct):
    id: bytes = field("uuid", default=ZERO_UUID)
    topics: Sequence[TopicData] = field([TopicData], default=())


class AssignReplicasToDirsResponse(Message, key=73, valid="0", flexible="0+"):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    directories: Sequence[DirectoryData] = field([DirectoryData], default=())
