"""JoinGroupRequest, API 11.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class JoinGroupRequestProtocol(Struct):
    name: str = field("string", default="")
    metadata: bytes = field("bytes", default=b"")


class JoinGroupRequest(Message, key=11, valid="0-9", flexible="6+"):
    group_id: str = field("string", default="")
    session_timeout_ms: int = field("int32", default=0)
    rebalance_timeout_ms: int = field("int32", "1+", default=-1)
    member_id: str = field("string", default="")
    group_instance_id: str | None = field("string", "5+", nullable="0+", default=None)
    protocol_type: str = field("string", default="")
    protocols: Sequence[JoinGroupRequestProtocol] = field([JoinGroupRequestProtocol], default=())
    reason: str | None = field("string", "8+", nullable="0+", default=None)
