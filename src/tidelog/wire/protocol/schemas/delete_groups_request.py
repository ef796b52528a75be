"""DeleteGroupsRequest, API 42.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, field


class DeleteGroupsRequest(Message, key=42, valid="0-2", flexible="2+"):
    groups_names: Sequence[str] = field(["string"], default=())
