"""LeaveGroupResponse, API 13.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class MemberResponse(Struct):
    member_id: str = field("string", default="")
    group_instance_id: str | None = field("string", nullable="0+", default=None)
    error_code: int = field("int16", default=0)


class LeaveGroupResponse(Message, key=13, valid="0-5", flexible="4+"):
    throttle_time_ms: int = field("int32", "1+", default=0)
    error_code: int = field("int16", default=0)
    members: Sequence[MemberResponse] = field([MemberResponse], "3+", default=())
