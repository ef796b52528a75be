"""ListConfigResourcesRequest, API 74.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, field


class ListConfigResourcesRequest(Message, key=74, valid="0-1", flexible="0+"):
    resource_types: Sequence[int] = field(["int8"], "1+", default=())
