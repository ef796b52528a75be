"""VotersRecord.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class Endpoint(Struct):
    name: str = field("string", default="")
    host: str = field("string", default="")
    port: int = field("uint16", default=0)


class KRaftVersionFeature(Struct):
    min_supported_version: int = field("int16", default=0)
    max_supported_version: int = field("int16", default=0)


class Voter(Struct):
    voter_id: int = field("int32", default=0)
    voter_directory_id: bytes = field("uuid", default=ZERO_UUID)
    endpoints: Sequence[Endpoint] = field([Endpoint], default=())
    kraft_version_feature: KRaftVersionFeature = field(KRaftVersionFeature)


class VotersRecord(Message, key=-1, valid="0", flexible="0+"):
    version: int = field("int16", default=0)
    voters: Sequence[Voter] = field([Voter], default=())
