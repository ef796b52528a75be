"""CreateTopicsResponse, API 19.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class CreatableTopicConfigs(Struct):
    name: str = field("string", default="")
    value: str | None = field("string", nullable="0+", default=None)
    read_only: bool = field("bool", default=False)
    config_source: int = field("int8", default=-1)
    is_sensitive: bool = field("bool", default=False)


class CreatableTopicResult(Struct):
    name: str = field("string", default="")
    topic_id: bytes = field("uuid", "7+", default=ZERO_UUID)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", nullable="0+", default=None)
    topic_config_error_code: int = field("int16", "5+", tag=0, default=0)
    num_partitions: int = field("int32", "5+", default=-1)
    replication_factor: int = field("int16", "5+", default=-1)
    configs: Sequence[CreatableTopicConfigs] | None = field(
        [CreatableTopicConfigs], "5+", nullable="0+", default=()
    )


class CreateTopicsResponse(Message, key=19, valid="2-7", flexible="5+"):
    throttle_time_ms: int = field("int32", default=0)
    topics: Sequence[CreatableTopicResult] = field([CreatableTopicResult], default=())
