"""DescribeGroupsRequest, API 15.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, field


class DescribeGroupsRequest(Message, key=15, valid="0-6", flexible="5+"):
    groups: Sequence[str] = field(["string"], default=())
    include_authorized_operations: bool = field("bool", "3+", default=False)
