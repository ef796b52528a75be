"""UpdateRaftVoterRequest, API 82.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class Listener(Struct):
    name: str = field("string", default="")
    host: str = field("string", default="")
    port: int = field("uint16", default=0)


class KRaftVersionFeature(Struct):
    min_supported_version: int = field("int16", default=0)
    max_supported_version: int = field("int16", default=0)


class UpdateRaftVoterRequest(Message, key=82, valid="0", flexible="0+"):
    cluster_id: str | None = field("string", nullable="0+", default=None)
    current_leader_epoch: int = field("int32", default=0)
    voter_id: int = field("int32", default=0)
    voter_directory_id: bytes = field("uuid", default=ZERO_UUID)
    listeners: Sequence[Listener] = field([Listener], default=())
    kraft_version_feature: KRaftVersionFeature = field(KRaftVersionFeature)
