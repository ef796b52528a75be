"""CreateAclsResponse, API 30.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class AclCreationResult(Struct):
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", nullable="0+", default=None)


class CreateAclsResponse(Message, key=30, valid="1-3", flexible="2+"):
    throttle_time_ms: int = field("int32", default=0)
    results: Sequence[AclCreationResult] = field([AclCreationResult], default=())
