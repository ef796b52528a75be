"""FetchRequest, API 1.

Written by scripts/make_schemas.py from the message definitions of Apache Kafka (see NOTICE).
"""

from collections.abc import Sequence

from tidelog.wire.protocol.message import ZERO_UUID, Message, Struct, field


class ReplicaState(Struct):
    replica_id: int = field("int32", default=-1)
    replica_epoch: int = field("int64", default=-1)


class FetchPartition(Struct):
    partition: int = field("int32", default=0)
    current_leader_epoch: int = field("int32", "9+", default=-1)
    fetch_offset: int = field("int64", default=0)
    last_fetched_epoch: int = field("int32", "12+", default=-1)
    log_start_offset: int = field("int64", "5+", default=-1)
    partition_max_bytes: int = field("int32", default=0)
    replica_directory_id: bytes = field("uuid", "17+", tag=0, default=ZERO_UUID)
    high_watermark: int = field("int64", "18+", tag=1, default=9223372036854775807)


class FetchTopic(Struct):
    topic_id: bytes = field("uuid", "13+", default=ZERO_UUID)
    topic: str = field("string", "4-12", default="")
    partitions: Sequence[FetchPartition] = field([FetchPartition], default=())


class ForgottenTopic(Struct):
    topic_id: bytes = field("uuid", "13+", default=ZERO_UUID)
    topic: str = field("string", "7-12", default="")
    partitions: Sequence[int] = field(["int32"], default=())


class FetchRequest(Message, key=1, valid="4-18", flexible="12+"):
    cluster_id: str | None = field("string", "12+", nullable="0+", tag=0, default=None)
    replica_state: ReplicaState | None = field(ReplicaState, "15+", tag=1, default=None)
    replica_id: int = field("int32", "4-14", default=-1)
    max_wait_ms: int = field("int32", default=0)
    min_bytes: int = field("int32", default=0)
    max_bytes: int = field("int32", default=2147483647)
    isolation_level: int = field("int8", default=0)
    session_id: int = field("int32", "7+", default=0)
    session_epoch: int = field("int32", "7+", default=-1)
    topics: Sequence[FetchTopic] = field([FetchTopic], default=())
    forgotten_topics_data: Sequence[ForgottenTopic] = field([ForgottenTopic], "7+", default=())
    rack_id: str = field("string", "11+", default="")
