"""DescribeClientQuotasResponse, API 48.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class EntityData(Struct):
    entity_type: str = field("string", default="")
    entity_name: str | None = field("string", nullable="0+", default=None)


class ValueData(Struct):
    key: str = field("string", default="")
    value: float = field("float64", default=0.0)


class EntryData(Struct):
    entity: Sequence[EntityData] = field([EntityData], default=())
    values: Sequence[ValueData] = field([ValueData], default=())


class DescribeClientQuotasResponse(Message, key=48, valid="0-1", flexible="1+"):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", nullable="0+", default=None)
    entries: Sequence[EntryData] | None = field([EntryData], nullable="0+", default=())
