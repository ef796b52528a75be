"""DescribeAclsResponse, API 29.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class AclDescription(Struct):
    principal: str = field("string", default="")
    host: str = field("string", default="")
    operation: int = field("int8", default=0)
    permission_type: int = field("int8", default=0)


class DescribeAclsResource(Struct):
    resource_type: int = field("int8", default=0)
    resource_name: str = field("string", default="")
    pattern_type: int = field("int8", default=3)
    acls: Sequence[AclDescription] = field([AclDescription], default=())


class DescribeAclsResponse(Message, key=29, valid="1-3", flexible="2+"):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", nullable="0+", default=None)
    resources: Sequence[DescribeAclsResource] = field([DescribeAclsResource], default=())
