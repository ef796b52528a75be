"""ElectLeadersResponse, API 43.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import Message, Struct, field


class PartitionResult(Struct):
    partition_id: int = field("int32", default=0)
    error_code: int = field("int16", default=0)
    error_message: str | None = field("string", nullable="0+", default=None)


class ReplicaElectionResult(Struct):
    topic: str = field("string", default="")
    partition_result: Sequence[PartitionResult] = field([PartitionResult], default=())


class ElectLeadersResponse(Message, key=43, valid="0-2", flexible="2+"):
    throttle_time_ms: int = field("int32", default=0)
    error_code: int = field("int16", "1+", default=0)
    replica_election_results: Sequence[ReplicaElectionResult] = field(
        [ReplicaElectionResult], default=()
    )
