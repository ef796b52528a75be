"""DescribeConfigsRequest, API 32.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class DescribeConfigsResource(Struct):
    resource_type: int = field("int8", default=0)
    resource_name: str = field("string", default="")
    configuration_keys: Sequence[str] | None = field(["string"], nullable="0+", default=())


class DescribeConfigsRequest(Message, key=32, valid="1-4", flexible="4+"):
    resources: Sequence[DescribeConfigsResource] = field([DescribeConfigsResource], default=())
    include_synonyms: bool = field("bool", default=False)
    include_documentation: bool = field("bool", "3+", default=False)
