"""DescribeGroupsResponse, API 15.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class DescribedGroupMember(Struct):
    member_id: str = field("string", default="")
    group_instance_id: str | None = field("string", "4+", nullable="0+", default=None)
    client_id: str = field("string", default="")
    client_host: str = field("string", default="")
    member_metadata: bytes = field("bytes", default=b"")
    member_assignment: bytes = field("bytes", default=b"")


class DescribedGroup(Struct):
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", "6+", nullable="0+", default=None)
    group_id: str = field("string", default="")
    group_state: str = field("string", default="")
    protocol_type: str = field("string", default="")
    protocol_data: str = field("string", default="")
    members: Sequence[DescribedGroupMember] = field([DescribedGroupMember], default=())
    authorized_operations: int = field("int32", "3+", default=-2147483648)


class DescribeGroupsResponse(Message, key=15, valid="0-6", flexible="5+"):
    throttle_time_ms: int = field("int32", "1+", default=0)
    groups: Sequence[DescribedGroup] = field([DescribedGroup], default=())
