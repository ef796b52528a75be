"""MetadataRequest, API 3.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class MetadataRequestTopic(Struct):
    topic_id: bytes = field("uuid", "10+", default=ZERO_UUID)
    name: str | None = field("string", nullable="10+", default="")


class MetadataRequest(Message, key=3, valid="0-13", flexible="9+"):
    topics: Sequence[MetadataRequestTopic] | None = field(
        [MetadataRequestTopic], nullable="1+", default=()
    )
    allow_auto_topic_creation: bool = field("bool", "4+", default=True)
    include_cluster_authorized_operations: bool = field("bool", "8-10", default=False)
    include_topic_authorized_operations: bool = field("bool", "8+", default=False)
