"""CreateTopicsRequest, API 19.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class CreatableReplicaAssignment(Struct):
    partition_index: int = field("int32", default=0)
    broker_ids: Sequence[int] = field(["int32"], default=())


class CreatableTopicConfig(Struct):
    name: str = field("string", default="")
    value: str | None = field("string", nullable="0+", default=None)


class CreatableTopic(Struct):
    name: str = field("string", default="")
    num_partitions: int = field("int32", default=0)
    replication_factor: int = field("int16", default=0)
    assignments: Sequence[CreatableReplicaAssignment] = field(
        [CreatableReplicaAssignment], default=()
    )
    configs: Sequence[CreatableTopicConfig] = field([CreatableTopicConfig], default=())


class CreateTopicsRequest(Message, key=19, valid="2-7", flexible="5+"):
    topics: Sequence[CreatableTopic] = field([CreatableTopic], default=())
    timeout_ms: int = field("int32", default=60000)
    validate_only: bool = field("bool", default=False)
