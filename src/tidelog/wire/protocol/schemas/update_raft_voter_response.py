"""UpdateRaftVoterResponse, API 82.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from tidelog.wire.protocol.message import Message, Struct, field


class CurrentLeader(Struct):
    leader_id: int = field("int32", default=-1)
    leader_epoch: int = field("int32", default=-1)
    host: str = field("string", default="")
    port: int = field("int32", default=0)


class UpdateRaftVoterResponse(Message, key=82, valid="0", flexible="0+"):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    current_leader: CurrentLeader | None = field(CurrentLeader, tag=0, default=None)
