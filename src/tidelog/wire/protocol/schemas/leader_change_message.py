"""LeaderChangeMessage.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class Voter(Struct):
    voter_id: int = field("int32", default=0)
    voter_directory_id: bytes = field("uuid", "1+", default=ZERO_UUID)


class LeaderChangeMessage(Message, key=-1, valid="0-1", flexible="0+"):
    version: int = field("int16", default=0)
    leader_id: int = field("int32", default=0)
    voters: Sequence[Voter] = field([Voter], default=())
    granting_voters: Sequence[Voter] = field([Voter], default=())
