"""DeleteAclsResponse, API 31.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class DeleteAclsMatchingAcl(Struct):
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", nullable="0+", default=None)
    resource_type: int = field("int8", default=0)
    resource_name: str = field("string", default="")
    pattern_type: int = field("int8", default=3)
    principal: str = field("string", default="")
    host: str = field("string", default="")
    operation: int = field("int8", default=0)
    permission_type: int = field("int8", default=0)


class DeleteAclsFilterResult(Struct):
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", nullable="0+", default=None)
    matching_acls: Sequence[DeleteAclsMatchingAcl] = field([DeleteAclsMatchingAcl], default=())


class DeleteAclsResponse(Message, key=31, valid="1-3", flexible="2+"):
    throttle_time_ms: int = field("int32", default=0)
    filter_results: Sequence[DeleteAclsFilterResult] = field([DeleteAclsFilterResult], default=())
