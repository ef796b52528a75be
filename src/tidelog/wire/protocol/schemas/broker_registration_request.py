"""BrokerRegistrationRequest, API 62.

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


class BrokerRegistrationRequest(Message, key=62, valid="0-4", flexible="0+"):
    broker_id: int = field("int32", default=0)
    cluster_id: str = field("string", default="")
    incarnation_id: bytes = field("uuid", default=ZERO_UUID)
    listeners: Sequence[Listener] = field([Listener], default=())
    features: Sequence[Feature] = field([Feature], default=())
    rack: str | None = field("string", nullable="0+", default=None)
    is_migrating_broker: bool = field("bool", "1+", default=False)
    log_dirs: Sequence[bytes] = field(["uuid"], "2+", default=())
    previous_broker_epoch: int = field("int64", "3+", default=-1)
