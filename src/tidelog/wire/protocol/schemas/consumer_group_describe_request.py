"""ConsumerGroupDescribeRequest, API 69.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, field


class ConsumerGroupDescribeRequest(Message, key=69, valid="0-1", flexible="0+"):
    group_ids: Sequence[str] = field(["string"], default=())
    include_authorized_operations: bool = field("bool", default=False)
