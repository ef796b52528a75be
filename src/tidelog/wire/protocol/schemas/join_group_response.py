"""JoinGroupResponse, API 11.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class JoinGroupResponseMember(Struct):
    member_id: str = field("string", default="")
    group_instance_id: str | None = field("string", "5+", nullable="0+", default=None)
    metadata: bytes = field("bytes", default=b"")


class JoinGroupResponse(Message, key=11, valid="0-9", flexible="6+"):
    throttle_time_ms: int = field("int32", "2+", default=0)
    error_code: int = field("int16", default=0)
    generation_id: int = field("int32", default=-1)
    protocol_type: str | None = field("string", "7+", nullable="0+", default=None)
    protocol_name: str | None = field("string", nullable="7+", default="")
    leader: str = field("string", default="")
    skip_assignment: bool = field("bool", "9+", default=False)
    member_id: str = field("string", default="")
    members: Sequence[JoinGroupResponseMember] = field([JoinGroupResponseMember], default=())
