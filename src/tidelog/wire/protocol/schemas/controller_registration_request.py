"""ControllerRegistrationRequest, API 70.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class Listener(Struct):
    name: str = field("string", default="")
    host: str = field("string", default="")
    port: int = field("uint16", default=0)
    security_protocol: int = field("int16", default=0)


class Feature(Struct):
    name: str = field("string", default="")
    min_supported_version: int = field("int16", default=0)
    max_supported_version: int = field("int16", default=0)


class ControllerRegistrationRequest(Message, key=70, valid="0", flexible="0+"):
    controller_id: int = field("int32", default=0)
    incarnation_id: bytes = field("uuid", default=ZERO_UUID)
    migration_ready: bool = field("bool", default=False)
    listeners: Sequence[Listener] = field([Listener], default=())
    features: Sequence[Feature] = field([Feature], default=())
