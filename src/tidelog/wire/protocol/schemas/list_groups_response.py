"""ListGroupsResponse, API 16.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class ListedGroup(Struct):
    group_id: str = field("string", default="")
    protocol_type: str = field("string", default="")
    group_state: str = field("string", "4+", default="")
    group_type: str = field("string", "5+", default="")


class ListGroupsResponse(Message, key=16, valid="0-5", flexible="3+"):
    throttle_time_ms: int = field("int32", "1+", default=0)
    error_code: int = field("int16", default=0)
    groups: Sequence[ListedGroup] = field([ListedGroup], default=())
