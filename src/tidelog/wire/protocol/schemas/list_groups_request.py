"""ListGroupsRequest, API 16.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, field


class ListGroupsRequest(Message, key=16, valid="0-5", flexible="3+"):
    states_filter: Sequence[str] = field(["string"], "4+", default=())
    types_filter: Sequence[str] = field(["string"], "5+", default=())
