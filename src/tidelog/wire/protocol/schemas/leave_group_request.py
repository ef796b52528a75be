"""LeaveGroupRequest, API 13.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class MemberIdentity(Struct):
    member_id: str = field("string", default="")
    group_instance_id: str | None = field("string", nullable="0+", default=None)
    reason: str | None = field("string", "5+", nullable="0+", default=None)


class LeaveGroupRequest(Message, key=13, valid="0-5", flexible="4+"):
    group_id: str = field("string", default="")
    members: Sequence[MemberIdentity] = field([MemberIdentity], "3+", default=())
    member_id: str = field("string", "0-2", default="")
