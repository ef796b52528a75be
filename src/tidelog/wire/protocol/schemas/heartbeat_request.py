"""HeartbeatRequest, API 12.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from tidelog.wire.protocol.message import Message, field


class HeartbeatRequest(Message, key=12, valid="0-4", flexible="4+"):
    group_id: str = field("string", default="")
    generation_id: int = field("int32", default=0)
    member_id: str = field("string", default="")
    group_instance_id: str | None = field("string", "3+", nullable="0+", default=None)
