"""DeleteAclsRequest, API 31.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class DeleteAclsFilter(Struct):
    resource_type_filter: int = field("int8", default=0)
    resource_name_filter: str | None = field("string", nullable="0+", default=None)
    pattern_type_filter: int = field("int8", default=3)
    principal_filter: str | None = field("string", nullable="0+", default=None)
    host_filter: str | None = field("string", nullable="0+", default=None)
    operation: int = field("int8", default=0)
    permission_type: int = field("int8", default=0)


class DeleteAclsRequest(Message, key=31, valid="1-3", flexible="2+"):
    filters: Sequence[DeleteAclsFilter] = field([DeleteAclsFilter], default=())
