"""BrokerHeartbeatRequest, API 63.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, field


class BrokerHeartbeatRequest(Message, key=63, valid="0-2", flexible="0+"):
    broker_id: int = field("int32", default=0)
    broker_epoch: int = field("int64", default=-1)
    current_metadata_offset: int = field("int64", default=0)
    want_fence: bool = field("bool", default=False)
    want_shut_down: bool = field("bool", default=False)
    offline_log_dirs: Sequence[bytes] = field(["uuid"], "1+", tag=0, default=())
    cordoned_log_dirs: Sequence[bytes] | None = field(
        ["uuid"], "2+", nullable="0+", tag=1, default=None
    )
