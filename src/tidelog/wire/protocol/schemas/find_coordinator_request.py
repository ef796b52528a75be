"""FindCoordinatorRequest, API 10.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, field


class FindCoordinatorRequest(Message, key=10, valid="0-6", flexible="3+"):
    key: str = field("string", "0-3", default="")
    key_type: int = field("int8", "1+", default=0)
    coordinator_keys: Sequence[str] = field(["string"], "4+", default=())
