"""AlterClientQuotasResponse, API 49.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class EntityData(Struct):
    entity_type: str = field("string", default="")
    entity_name: str | None = field("string", nullable="0+", default=None)


class EntryData(Struct):
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", nullable="0+", default=None)
    entity: Sequence[EntityData] = field([EntityData], default=())


class AlterClientQuotasResponse(Message, key=49, valid="0-1", flexible="1+"):
    throttle_time_ms: int = field("int32", default=0)
    entries: Sequence[EntryData] = field([EntryData], default=())
