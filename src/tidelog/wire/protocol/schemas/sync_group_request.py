"""SyncGroupRequest, API 14.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class SyncGroupRequestAssignment(Struct):
    member_id: str = field("string", default="")
    assignment: bytes = field("bytes", default=b"")


class SyncGroupRequest(Message, key=14, valid="0-5", flexible="4+"):
    group_id: str = field("string", default="")
    generation_id: int = field("int32", default=0)
    member_id: str = field("string", default="")
    group_instance_id: str | None = field("string", "3+", nullable="0+", default=None)
    protocol_type: str | None = field("string", "5+", nullable="0+", default=None)
    protocol_name: str | None = field("string", "5+", nullable="0+", default=None)
    assignments: Sequence[SyncGroupRequestAssignment] = field(
        [SyncGroupRequestAssignment], default=()
    )
