"""RemoveRaftVoterRequest, API 81.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from tidelog.wire.protocol.message import ZERO_UUID, Message, field


class RemoveRaftVoterRequest(Message, key=81, valid="0", flexible="0+"):
    cluster_id: str | None = field("string", nullable="0+", default=None)
    voter_id: int = field("int32", default=0)
    voter_directory_id: bytes = field("uuid", default=ZERO_UUID)
