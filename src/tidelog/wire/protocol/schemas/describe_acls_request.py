"""DescribeAclsRequest, API 29.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from tidelog.wire.protocol.message import Message, field


class DescribeAclsRequest(Message, key=29, valid="1-3", flexible="2+"):
    resource_type_filter: int = field("int8", default=0)
    resource_name_filter: str | None = field("string", nullable="0+", default=None)
    pattern_type_filter: int = field("int8", default=3)
    principal_filter: str | None = field("string", nullable="0+", default=None)
    host_filter: str | None = field("string", nullable="0+", default=None)
    operation: int = field("int8", default=0)
    permission_type: int = field("int8", default=0)
