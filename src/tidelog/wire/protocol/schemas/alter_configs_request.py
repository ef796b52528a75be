"""AlterConfigsRequest, API 33.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class AlterableConfig(Struct):
    name: str = field("string", default="")
    value: str | None = field("string", nullable="0+", default=None)


class AlterConfigsResource(Struct):
    resource_type: int = field("int8", default=0)
    resource_name: str = field("string", default="")
    configs: Sequence[AlterableConfig] = field([AlterableConfig], default=())


class AlterConfigsRequest(Message, key=33, valid="0-2", flexible="2+"):
    resources: Sequence[AlterConfigsResource] = field([AlterConfigsResource], default=())
    validate_only: bool = field("bool", default=False)
