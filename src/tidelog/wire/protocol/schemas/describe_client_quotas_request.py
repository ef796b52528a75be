"""DescribeClientQuotasRequest, API 48.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class ComponentData(Struct):
    entity_type: str = field("string", default="")
    match_type: int = field("int8", default=0)
    match: str | None = field("string", nullable="0+", default=None)


class DescribeClientQuotasRequest(Message, key=48, valid="0-1", flexible="1+"):
    components: Sequence[ComponentData] = field([ComponentData], default=())
    strict: bool = field("bool", default=False)
