"""AlterReplicaLogDirsResponse, API 34.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int = field("int32", default=0)
    error_code: int = field("int16", default=0)


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = field("string", default="")
    partitions: Sequence[AlterReplicaLogDirPartitionResult] = field(
        [AlterReplicaLogDirPartitionResult], default=()
    )


class AlterReplicaLogDirsResponse(Message, key=34, valid="1-2", flexible="2+"):
    throttle_time_ms: int = field("int32", default=0)
    results: Sequence[AlterReplicaLogDirTopicResult] = field(
        [AlterReplicaLogDirTopicResult], default=()
    )
