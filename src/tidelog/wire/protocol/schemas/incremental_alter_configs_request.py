"""IncrementalAlterConfigsRequest, API 44.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class AlterableConfig(Struct):
    name: str = field("string", default="")
    config_operation: int = field("int8", default=0)
    value: str | None = field("string", nullable="0+", default=None)


class AlterConfigsResource(Struct):
    resource_type: int = field("int8", default=0)
    resource_name: str = field("string", default="")
    configs: Sequence[AlterableConfig] = field([AlterableConfig], default=())


class IncrementalAlterConfigsRequest(Message, key=44, valid="0-1", flexible="1+"):
    resources: Sequence[AlterConfigsResource] = field([AlterConfigsResource], default=())
    validate_only: bool = field("bool", default=False)
