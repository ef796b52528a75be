"""FindCoordinatorResponse, API 10.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class Coordinator(Struct):
    key: str = field("string", default="")
    node_id: int = field("int32", default=0)
    host: str = field("string", default="")
    port: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", nullable="0+", default=None)


class FindCoordinatorResponse(Message, key=10, valid="0-6", flexible="3+"):
    throttle_time_ms: int = field("int32", "1+", default=0)
    coordinators: Sequence[Coordinator] = field([Coordinator], "4+", default=())
    error_code: int = field("int16", "0-3", default=0)
    error_message: str | None = field("string", "1-3", nullable="0+", default=None)
    node_id: int = field("int32", "0-3", default=0)
    host: str = field("string", "0-3", default="")
    port: int = field("int32", "0-3", default=0)
