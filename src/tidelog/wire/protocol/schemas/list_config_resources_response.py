"""ListConfigResourcesResponse, API 74.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class ConfigResource(Struct):
    resource_name: str = field("string", default="")
    resource_type: int = field("int8", "1+", default=16)


class ListConfigResourcesResponse(Message, key=74, valid="0-1", flexible="0+"):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    config_resources: Sequence[ConfigResource] = field([ConfigResource], default=())
