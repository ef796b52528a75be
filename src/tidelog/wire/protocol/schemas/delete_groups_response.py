"""DeleteGroupsResponse, API 42.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class DeletableGroupResult(Struct):
    group_id: str = field("string", default="")
    error_code: int = field("int16", default=0)


class DeleteGroupsResponse(Message, key=42, valid="0-2", flexible="2+"):
    throttle_time_ms: int = field("int32", default=0)
    results: Sequence[DeletableGroupResult] = field([DeletableGroupResult], default=())
