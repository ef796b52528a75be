"""AlterClientQuotasRequest, API 49.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class EntityData(Struct):
    entity_type: str = field("string", default="")
    entity_name: str | None = field("string", nullable="0+", default=None)


class OpData(Struct):
    key: str = field("string", default="")
    value: float = field("float64", default=0.0)
    remove: bool = field("bool", default=False)


class EntryData(Struct):
    entity: Sequence[EntityData] = field([EntityData], default=())
    ops: Sequence[OpData] = field([OpData], default=())


class AlterClientQuotasRequest(Message, key=49, valid="0-1", flexible="1+"):
    entries: Sequence[EntryData] = field([EntryData], default=())
    validate_only: bool = field("bool", default=False)
